// Does a template take message content as text, or as a list of parts?
#pragma once

#include "common/text/template/ast.h"

namespace paceline::jinja {

// True if some loop runs over the content of a message: `for part in message['content']`, also through
// variables (`set content = message.content`) and macro parameters. The heuristic of vLLM's content format
// detection, which the answer decides: parts are passed on, or joined to one text.
bool IteratesOverContent(const Template& source);

}  // namespace paceline::jinja
