// ParseJsonBody: the body of a request into a JSON value, within stated bounds.
//
// Refused with 400: text that is not one JSON value in valid UTF-8, a lone surrogate escape, a key given
// twice in one object (two readers would take different ones), nesting beyond `depth_max` (checked while
// reading, before anything deep exists). Time is linear in the body. Key order is kept, since templates print
// objects.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "coordinator/api/api_error.h"

namespace paceline {

MaybeError ParseJsonBody(std::string_view body, uint32_t depth_max, nlohmann::ordered_json* out);

}  // namespace paceline
