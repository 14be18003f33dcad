// JSON of model folders, read strictly: size, depth and duplicate keys are limits, not surprises.
//
//   ASSIGN_OR_RETURN(nlohmann::json config, ReadJsonFile(dir + "/config.json", 16 << 20));
//   ASSIGN_OR_RETURN(uint32_t layers, JsonU32(config, "num_hidden_layers"));
//
// A getter refuses a value of another type and names key, wanted and found; a missing or null key is the
// default. NotFound says that the file is missing. Thread-safe; library exceptions stop here.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace paceline {

inline constexpr int kJsonDepthMax = 64;

// InvalidArgument on anything that is not one JSON value: trailing bytes, NUL, damaged UTF-8, duplicate keys,
// depth.
StatusOr<nlohmann::json> ParseStrictJson(std::string_view text);
StatusOr<nlohmann::json> ReadJsonFile(const std::string& path, size_t bytes_max);

// Whether the key is there with another value than null. `object` may be any JSON value.
bool JsonHas(const nlohmann::json& object, std::string_view key);

// Empty for anything but an integer from 0 to 2^32 - 1 (1.0 is not one).
std::optional<uint32_t> AsU32(const nlohmann::json& value);
StatusOr<std::optional<uint32_t>> JsonU32(const nlohmann::json& object, std::string_view key);
StatusOr<std::optional<double>> JsonNumber(const nlohmann::json& object, std::string_view key);
StatusOr<std::optional<bool>> JsonBool(const nlohmann::json& object, std::string_view key);
StatusOr<std::optional<std::string>> JsonString(const nlohmann::json& object, std::string_view key);

}  // namespace paceline
