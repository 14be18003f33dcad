// str.format(): "{}", "{0}", "{name}", "{{" and "}}". Attribute access, indexing and format specifications
// inside the braces are refused: they are how Python templates escape their sandbox.
#pragma once

#include <string_view>

#include "common/text/template/callable.h"
#include "common/text/template/runtime.h"

namespace paceline::jinja {

StatusOr<Value> FormatText(Runtime& runtime, std::string_view format, const CallArgs& args);

}  // namespace paceline::jinja
