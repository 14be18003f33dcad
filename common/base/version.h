// What this build is: compared in the handshake, shown by --version, /version and the metrics.
#pragma once

#include <string_view>

namespace paceline {

inline constexpr std::string_view kPacelineVersion = PACELINE_VERSION;
// Two processes of one cluster must be of one build: the version and what changes results.
inline constexpr std::string_view kBuildId = PACELINE_VERSION "-cpu";

}  // namespace paceline
