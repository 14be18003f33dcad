// `paceline serve MODEL`: checks what can be checked, then supervises this node's processes.
#pragma once

#include <string>
#include <vector>

namespace paceline {

// `args`: what follows `serve`. Answers the exit code.
int ServeCommand(const std::vector<std::string>& args);

// Path of the program `name` beside this one.
std::string SiblingProgram(const std::string& name);

}  // namespace paceline
