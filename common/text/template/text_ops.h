// Text operations that a filter and a string method share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/text/template/runtime.h"
#include "common/text/template/value.h"

namespace paceline::jinja {

enum class StripSide : uint8_t { kLeft, kRight, kBoth };

// `chars` absent or None: white space.
StatusOr<Value> StripText(Runtime& runtime, const Value& text, const Value& chars, StripSide side);

// At most `count` replacements; negative: all.
StatusOr<Value> ReplaceText(Runtime& runtime, std::string_view text, std::string_view from,
                            std::string_view to, int64_t count);

// str.splitlines(): views into `text`, which must outlive them.
std::vector<std::string_view> SplitLines(const std::string& text, bool keep_ends);
std::vector<std::string_view> SplitLines(std::string&& text, bool keep_ends) = delete;

// str.join(): every item must be a string.
StatusOr<Value> JoinStrings(Runtime& runtime, std::string_view separator, const std::vector<Value>& items);

}  // namespace paceline::jinja
