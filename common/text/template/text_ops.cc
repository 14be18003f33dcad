#include "common/text/template/text_ops.h"

#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {

StatusOr<Value> StripText(Runtime& runtime, const Value& text, const Value& chars, StripSide side) {
  std::string_view set;
  const bool given = !chars.is_absent() && !chars.is_none();
  if (given) {
    ASSIGN_OR_RETURN(set, WantString(chars, "the characters to strip"));
  }
  std::string_view rest = text.AsString();
  RETURN_IF_ERROR(runtime.Work(rest.size() * (set.size() + 1)));
  if (side != StripSide::kRight) rest = StripLeft(rest, given ? &set : nullptr);
  if (side != StripSide::kLeft) rest = StripRight(rest, given ? &set : nullptr);
  Value stripped = runtime.heap.String(rest);
  stripped.set_markup(text.is_markup());
  return stripped;
}

StatusOr<Value> ReplaceText(Runtime& runtime, std::string_view text, std::string_view from,
                            std::string_view to, int64_t count) {
  TextBuilder out(runtime.heap);
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  size_t pos = 0;
  for (; left > 0 && !out.overflow(); --left) {
    if (from.empty()) {  // between all characters, and at both ends
      out.Append(to);
      if (pos == text.size()) break;
      const size_t start = pos;
      DecodeNext(text, pos);
      out.Append(text.substr(start, pos - start));
      continue;
    }
    const size_t found = text.find(from, pos);
    if (found == std::string_view::npos) break;
    out.Append(text.substr(pos, found - pos));
    out.Append(to);
    pos = found + from.size();
  }
  out.Append(text.substr(pos));
  RETURN_IF_ERROR(runtime.Work(text.size() + out.size()));
  return out.Finish();
}

std::vector<std::string_view> SplitLines(const std::string& text, bool keep_ends) {
  std::vector<std::string_view> lines;
  const std::string_view view = text;
  size_t start = 0;
  for (size_t pos = 0; pos < view.size();) {
    const size_t at = pos;
    const char32_t c = DecodeNext(view, pos);
    if (!IsPythonLineBreak(c)) continue;
    if (c == '\r' && pos < view.size() && view[pos] == '\n') ++pos;
    lines.push_back(view.substr(start, (keep_ends ? pos : at) - start));
    start = pos;
  }
  if (start < view.size()) lines.push_back(view.substr(start));
  return lines;
}

StatusOr<Value> JoinStrings(Runtime& runtime, std::string_view separator, const std::vector<Value>& items) {
  TextBuilder out(runtime.heap);
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out.Append(separator);
    ASSIGN_OR_RETURN(const std::string_view item, WantString(items[i], "an item of join"));
    out.Append(item);
  }
  RETURN_IF_ERROR(runtime.Work(out.size()));
  return out.Finish();
}

}  // namespace paceline::jinja
