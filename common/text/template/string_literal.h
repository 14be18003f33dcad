// The escapes of a quoted string in a template, as Python's unicode-escape codec reads them.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace paceline::jinja {

// `body` is what stands between the quotes. Surrogate escapes, \N{...} and cut-off escapes are refused.
StatusOr<std::string> DecodeStringLiteral(std::string_view body);

}  // namespace paceline::jinja
