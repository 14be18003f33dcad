// Methods of str.
#include <algorithm>

#include "common/text/template/callable.h"
#include "common/text/template/format.h"
#include "common/text/template/text_ops.h"
#include "common/text/template/unicode.h"
#include "common/text/template/value_ops.h"

namespace paceline::jinja {
namespace {

Status NoArguments(std::string_view name, const CallArgs& args) {
  return BindArgs(name, args, {}, 0).status();
}

// One-string-in, one-string-out methods.
template <std::string (*kConvert)(std::string_view)>
StatusOr<Value> Convert(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(NoArguments("str method", args));
  RETURN_IF_ERROR(runtime.Work(self.AsString().size() * 8));  // character by character
  return runtime.heap.String(kConvert(self.AsString()));
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const size_t start = pos;
    const char32_t c = DecodeNext(text, pos);
    const std::string_view piece = text.substr(start, pos - start);
    out += IsUpperCase(c) ? ToLower(piece) : ToUpper(piece);
  }
  return out;
}

template <StripSide kSide>
StatusOr<Value> Strip(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("strip", args, {"chars"}, 0));
  return StripText(runtime, self, bound[0], kSide);
}

StatusOr<Value> Pieces(Runtime& runtime, const std::vector<std::string_view>& pieces) {
  RETURN_IF_ERROR(runtime.heap.CheckRoom(pieces.size() * (sizeof(StringObject) + sizeof(Value))));
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (const std::string_view piece : pieces) items.push_back(runtime.heap.String(piece));
  return runtime.heap.List(std::move(items));
}

// Runs of white space separate; none at either end.
std::vector<std::string_view> SplitWords(std::string_view text, int64_t splits_max) {
  std::vector<std::string_view> pieces;
  std::string_view rest = StripLeft(text, nullptr);
  while (!rest.empty()) {
    if (splits_max == 0) {
      pieces.push_back(StripRight(rest, nullptr));
      return pieces;
    }
    --splits_max;
    size_t end = 0;
    while (end < rest.size()) {
      size_t next = end;
      if (IsPythonSpace(DecodeNext(rest, next))) break;
      end = next;
    }
    pieces.push_back(rest.substr(0, end));
    rest = StripLeft(rest.substr(end), nullptr);
  }
  return pieces;
}

std::vector<std::string_view> SplitWordsFromRight(std::string_view text, int64_t splits_max) {
  std::vector<std::string_view> pieces;
  std::string_view rest = StripRight(text, nullptr);
  while (!rest.empty()) {
    if (splits_max == 0) {
      pieces.push_back(StripLeft(rest, nullptr));
      break;
    }
    --splits_max;
    size_t start = 0;
    for (size_t pos = 0; pos < rest.size();) {
      if (IsPythonSpace(DecodeNext(rest, pos))) start = pos;
    }
    pieces.push_back(rest.substr(start));
    rest = StripRight(rest.substr(0, start), nullptr);
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator, int64_t splits_max) {
  std::vector<std::string_view> pieces;
  for (; splits_max != 0; --splits_max) {
    const size_t found = text.find(separator);
    if (found == std::string_view::npos) break;
    pieces.push_back(text.substr(0, found));
    text.remove_prefix(found + separator.size());
  }
  pieces.push_back(text);
  return pieces;
}

std::vector<std::string_view> SplitAtFromRight(std::string_view text, std::string_view separator,
                                               int64_t splits_max) {
  std::vector<std::string_view> pieces;
  for (; splits_max != 0; --splits_max) {
    const size_t found = text.rfind(separator);
    if (found == std::string_view::npos) break;
    pieces.push_back(text.substr(found + separator.size()));
    text = text.substr(0, found);
  }
  pieces.push_back(text);
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

template <bool kFromRight>
StatusOr<Value> Split(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("split", args, {"sep", "maxsplit"}, 0));
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  int64_t splits_max = -1;
  if (!bound[1].is_absent()) {
    ASSIGN_OR_RETURN(splits_max, WantInt(bound[1], "maxsplit"));
  }
  if (bound[0].is_absent() || bound[0].is_none()) {
    if (!kFromRight || splits_max < 0) return Pieces(runtime, SplitWords(text, splits_max));
    // Each piece taken from the right looks at all that is left.
    RETURN_IF_ERROR(
        runtime.Work(text.size() * static_cast<uint64_t>(std::min<int64_t>(splits_max, 1 << 20))));
    return Pieces(runtime, SplitWordsFromRight(text, splits_max));
  }
  ASSIGN_OR_RETURN(const std::string_view separator, WantString(bound[0], "the separator of split"));
  if (separator.empty()) return InvalidArgumentError("the separator of split must not be empty");
  return Pieces(runtime, kFromRight ? SplitAtFromRight(text, separator, splits_max)
                                    : SplitAt(text, separator, splits_max));
}

StatusOr<Value> MethodSplitLines(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("splitlines", args, {"keepends"}, 0));
  const std::string text(self.AsString());
  RETURN_IF_ERROR(runtime.Work(text.size()));
  return Pieces(runtime, SplitLines(text, Truthy(bound[0])));
}

template <bool kAtEnd>
StatusOr<Value> Affix(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs(kAtEnd ? "endswith" : "startswith", args, {"text"}, 1));
  std::vector<Value> wanted = {bound[0]};
  if (bound[0].is_list() && bound[0].AsList().flavor == ListFlavor::kTuple) wanted = bound[0].AsList().items;
  const std::string_view text = self.AsString();
  for (const Value& candidate : wanted) {
    ASSIGN_OR_RETURN(const std::string_view affix, WantString(candidate, "the text to look for"));
    RETURN_IF_ERROR(runtime.Work(affix.size()));
    if (kAtEnd ? text.ends_with(affix) : text.starts_with(affix)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool kSuffix>
StatusOr<Value> RemoveAffix(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("removeprefix", args, {"text"}, 1));
  ASSIGN_OR_RETURN(const std::string_view affix, WantString(bound[0], "the text to remove"));
  std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  if (kSuffix ? text.ends_with(affix) : text.starts_with(affix)) {
    kSuffix ? text.remove_suffix(affix.size()) : text.remove_prefix(affix.size());
  }
  return runtime.heap.String(text);
}

StatusOr<Value> Replace(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("replace", args, {"old", "new", "count"}, 2));
  ASSIGN_OR_RETURN(const std::string_view from, WantString(bound[0], "the text to replace"));
  ASSIGN_OR_RETURN(const std::string_view to, WantString(bound[1], "the replacement"));
  int64_t count = -1;
  if (!bound[2].is_absent()) {
    ASSIGN_OR_RETURN(count, WantInt(bound[2], "replace count"));
  }
  return ReplaceText(runtime, self.AsString(), from, to, count);
}

StatusOr<Value> Join(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("join", args, {"items"}, 1));
  ASSIGN_OR_RETURN(const std::vector<Value> items, Iterate(runtime, bound[0]));
  return JoinStrings(runtime, self.AsString(), items);
}

// Code point index of the first or last occurrence, -1 if there is none.
template <bool kLast>
StatusOr<int64_t> FindText(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("find", args, {"text"}, 1));
  ASSIGN_OR_RETURN(const std::string_view wanted, WantString(bound[0], "the text to find"));
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  const size_t at = kLast ? text.rfind(wanted) : text.find(wanted);
  if (at == std::string_view::npos) return -1;
  return static_cast<int64_t>(CodePointCount(text.substr(0, at)));
}

template <bool kLast>
StatusOr<Value> Find(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const int64_t at, FindText<kLast>(runtime, self, args));
  return Value::Int(at);
}

StatusOr<Value> Index(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const int64_t at, FindText<false>(runtime, self, args));
  if (at < 0) return InvalidArgumentError("index: the text was not found");
  return Value::Int(at);
}

StatusOr<Value> Count(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("count", args, {"text"}, 1));
  ASSIGN_OR_RETURN(const std::string_view wanted, WantString(bound[0], "the text to count"));
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  if (wanted.empty()) return Value::Int(static_cast<int64_t>(CodePointCount(text)) + 1);
  int64_t count = 0;
  for (size_t at = text.find(wanted); at != std::string_view::npos;
       at = text.find(wanted, at + wanted.size())) {
    ++count;
  }
  return Value::Int(count);
}

bool IsAlphaNumeric(char32_t c) { return IsAlpha(c) || IsDecimalDigit(c); }

template <bool (*kPredicate)(char32_t)>
StatusOr<Value> AllAre(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(NoArguments("str method", args));
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  for (size_t pos = 0; pos < text.size();) {
    if (!kPredicate(DecodeNext(text, pos))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

template <bool kUpper>
StatusOr<Value> CaseIs(Runtime& runtime, const Value& self, const CallArgs& args) {
  RETURN_IF_ERROR(NoArguments("str method", args));
  ASSIGN_OR_RETURN(const bool is, FindTest(kUpper ? "upper" : "lower")(runtime, self, args));
  return Value::Bool(is);
}

enum class Side : uint8_t { kLeft, kRight };

template <Side kTextAt>
StatusOr<Value> Justify(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("ljust", args, {"width", "fillchar"}, 1));
  ASSIGN_OR_RETURN(const int64_t width, WantInt(bound[0], "width"));
  char fill = ' ';
  if (!bound[1].is_absent()) {
    ASSIGN_OR_RETURN(const std::string_view given, WantString(bound[1], "fillchar"));
    if (given.size() != 1) return InvalidArgumentError("fillchar must be one ASCII character");
    fill = given[0];
  }
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  const int64_t padding = std::max<int64_t>(width - static_cast<int64_t>(CodePointCount(text)), 0);
  TextBuilder out(runtime.heap);
  if (kTextAt == Side::kLeft) out.Append(text);
  out.AppendRepeated(fill, static_cast<size_t>(padding));
  if (kTextAt == Side::kRight) out.Append(text);
  return out.Finish();
}

StatusOr<Value> ZeroFill(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("zfill", args, {"width"}, 1));
  ASSIGN_OR_RETURN(const int64_t width, WantInt(bound[0], "width"));
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const int64_t padding = std::max<int64_t>(width - static_cast<int64_t>(CodePointCount(text)), 0);
  TextBuilder out(runtime.heap);
  out.Append(text.substr(0, sign ? 1 : 0));
  out.AppendRepeated('0', static_cast<size_t>(padding));
  out.Append(text.substr(sign ? 1 : 0));
  return out.Finish();
}

template <bool kLast>
StatusOr<Value> Partition(Runtime& runtime, const Value& self, const CallArgs& args) {
  ASSIGN_OR_RETURN(const auto bound, BindArgs("partition", args, {"sep"}, 1));
  ASSIGN_OR_RETURN(const std::string_view separator, WantString(bound[0], "the separator of partition"));
  if (separator.empty()) return InvalidArgumentError("the separator of partition must not be empty");
  const std::string_view text = self.AsString();
  RETURN_IF_ERROR(runtime.Work(text.size()));
  const size_t at = kLast ? text.rfind(separator) : text.find(separator);
  Heap& heap = runtime.heap;
  if (at == std::string_view::npos) {
    if (kLast) return heap.Tuple({heap.String(""), heap.String(""), heap.String(text)});
    return heap.Tuple({heap.String(text), heap.String(""), heap.String("")});
  }
  return heap.Tuple({heap.String(text.substr(0, at)), heap.String(separator),
                     heap.String(text.substr(at + separator.size()))});
}

StatusOr<Value> Format(Runtime& runtime, const Value& self, const CallArgs& args) {
  return FormatText(runtime, self.AsString(), args);
}

struct Entry {
  std::string_view name;
  NativeFn method;
};

constexpr Entry kMethods[] = {
    {"capitalize", Convert<ToCapitalized>},
    {"casefold", Convert<ToLower>},
    {"count", Count},
    {"endswith", Affix<true>},
    {"find", Find<false>},
    {"format", Format},
    {"index", Index},
    {"isalnum", AllAre<IsAlphaNumeric>},
    {"isalpha", AllAre<IsAlpha>},
    {"isdecimal", AllAre<IsDecimalDigit>},
    {"isdigit", AllAre<IsDecimalDigit>},
    {"islower", CaseIs<false>},
    {"isnumeric", AllAre<IsDecimalDigit>},
    {"isspace", AllAre<IsPythonSpace>},
    {"isupper", CaseIs<true>},
    {"join", Join},
    {"ljust", Justify<Side::kLeft>},
    {"lower", Convert<ToLower>},
    {"lstrip", Strip<StripSide::kLeft>},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", Replace},
    {"rfind", Find<true>},
    {"rjust", Justify<Side::kRight>},
    {"rpartition", Partition<true>},
    {"rsplit", Split<true>},
    {"rstrip", Strip<StripSide::kRight>},
    {"split", Split<false>},
    {"splitlines", MethodSplitLines},
    {"startswith", Affix<false>},
    {"strip", Strip<StripSide::kBoth>},
    {"swapcase", Convert<SwapCase>},
    {"title", Convert<ToTitle>},
    {"upper", Convert<ToUpper>},
    {"zfill", ZeroFill},
};

}  // namespace

NativeFn FindStringMethod(std::string_view name) {
  const Entry* found = std::find_if(std::begin(kMethods), std::end(kMethods),
                                    [&](const Entry& entry) { return entry.name == name; });
  return found == std::end(kMethods) ? nullptr : found->method;
}

}  // namespace paceline::jinja
