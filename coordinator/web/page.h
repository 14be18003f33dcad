// The built-in page: static, no key; what it shows it asks for with the key that the person types.
#pragma once

#include <string_view>

namespace paceline {

// One file, its own style and script inside, nothing loaded from elsewhere.
extern const std::string_view kPage;
extern const char* const kPageSecurityPolicy;

}  // namespace paceline
