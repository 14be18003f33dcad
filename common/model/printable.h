// Text from a file, made safe for a message: a hostile name can neither break a log line nor flood it.
//
//   InvalidArgumentError("tensor {}: ...", Printable(name))
#pragma once

#include <string>
#include <string_view>

namespace paceline {

// ASCII stays; control bytes, quotes' backslash and bytes above 0x7E become \xHH; cut with "..." after 96
// bytes.
std::string Printable(std::string_view text);

}  // namespace paceline
