// Tokens to AST. What the engine does not have (include, import, extends, block, unknown filters and tests,
// argument unpacking, access to Python internals) is refused here, by the name of the construct and its line.
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/text/template/ast.h"

namespace paceline::jinja {

StatusOr<Template> ParseTemplate(std::string_view source);

}  // namespace paceline::jinja
