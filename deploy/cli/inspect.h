// `paceline inspect model MODEL` and `paceline inspect config [flags]`: what the files and the settings say.
#pragma once

#include <string>
#include <vector>

namespace paceline {

int InspectCommand(const std::vector<std::string>& args);

}  // namespace paceline
