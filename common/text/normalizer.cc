#include "common/text/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

using Kind = NormalizerStep::Kind;

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::u32string Decode(std::string_view utf8) {
  std::u32string out;
  CHECK(DecodeUtf8(utf8, &out)) << "a normalizer step made invalid UTF-8";
  return out;
}

utf8proc_propval_t CombiningClass(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

// Canonical order of combining marks. utf8proc sorts them by exchange, which takes minutes on a long run of
// marks, so the runs are sorted here before it composes.
void OrderMarks(std::vector<utf8proc_int32_t>* text) {
  for (auto it = text->begin(); it != text->end();) {
    if (CombiningClass(*it) == 0) {
      ++it;
      continue;
    }
    const auto end = std::find_if(it, text->end(), [](auto c) { return CombiningClass(c) == 0; });
    std::stable_sort(it, end, [](auto a, auto b) { return CombiningClass(a) < CombiningClass(b); });
    it = end;
  }
}

std::string UnicodeForm(std::string_view utf8, bool compose, bool compatibility) {
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE |
                                                      (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> text;
  text.reserve(utf8.size());
  std::array<utf8proc_int32_t, 64> parts{};  // the longest decomposition has 18
  for (const char32_t c : Decode(utf8)) {
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(),
                                                           parts.size(), options, &boundary);
    CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(parts.size())) << "utf8proc " << count;
    text.insert(text.end(), parts.begin(), parts.begin() + count);
  }
  OrderMarks(&text);
  if (compose) {
    const utf8proc_ssize_t length =
        utf8proc_normalize_utf32(text.data(), static_cast<utf8proc_ssize_t>(text.size()),
                                 static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    CHECK(length >= 0) << "utf8proc " << length;
    text.resize(static_cast<size_t>(length));
  }
  std::string out;
  out.reserve(utf8.size());
  for (const utf8proc_int32_t c : text) AppendUtf8(static_cast<char32_t>(c), &out);
  return out;
}

std::string Lowercase(std::string_view utf8) {
  std::string out;
  out.reserve(utf8.size());
  for (const char32_t c : Decode(utf8)) {
    if (c == U'\u0130') {  // the one code point whose lower case is two
      out += "i\xCC\x87";
    } else {
      AppendUtf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), &out);
    }
  }
  return out;
}

std::string Strip(std::string_view utf8, bool left, bool right) {
  const std::u32string text = Decode(utf8);
  const auto is_space = [](char32_t c) { return (MaskOf(c) & kWhiteSpace) != 0; };
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end && is_space(text[begin])) ++begin;
  while (right && end > begin && is_space(text[end - 1])) --end;
  return ToUtf8(std::u32string_view(text).substr(begin, end - begin));
}

std::string StripAccents(std::string_view utf8) {
  std::string out;
  for (const char32_t c : Decode(utf8)) {
    if (!(MaskOf(c) & kMark)) AppendUtf8(c, &out);
  }
  return out;
}

std::string CollapseSpaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out.push_back(c);
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

StatusOr<std::string> ReplaceMatches(std::string_view utf8, const Scanner& scanner,
                                     std::string_view content) {
  const std::u32string text = Decode(utf8);
  std::vector<TextRange> matches;
  RETURN_IF_ERROR(scanner.FindAll(text, &matches));
  std::string out;
  size_t at = 0;
  for (const TextRange& match : matches) {
    out += ToUtf8(std::u32string_view(text).substr(at, match.begin - at));
    out += content;
    at = match.end;
  }
  return out + ToUtf8(std::u32string_view(text).substr(at));
}

}  // namespace

StatusOr<Normalizer> Normalizer::Create(const std::vector<NormalizerStep>& steps) {
  Normalizer out;
  for (const NormalizerStep& step : steps) {
    if (!IsValidUtf8(step.content) || !IsValidUtf8(step.pattern)) {
      return InvalidArgumentError("normalizer: a pattern or content is not UTF-8");
    }
    if (step.kind == Kind::kReplace && step.pattern.empty()) {
      return InvalidArgumentError("normalizer Replace: want a pattern, found an empty one");
    }
    CompiledStep compiled{.step = step, .scanner = nullptr};
    if (step.kind == Kind::kReplace && step.pattern_is_regex) {
      ASSIGN_OR_RETURN(compiled.scanner, MakeScanner(step.pattern));
    }
    out.steps_.push_back(std::move(compiled));
  }
  return out;
}

StatusOr<std::string> Normalizer::Apply(const CompiledStep& compiled, std::string text) {
  const NormalizerStep& step = compiled.step;
  switch (step.kind) {
    case Kind::kPrepend:
      return text.empty() ? text : step.content + text;
    case Kind::kReplace:
      if (compiled.scanner != nullptr) return ReplaceMatches(text, *compiled.scanner, step.content);
      return ReplaceAll(text, step.pattern, step.content);
    case Kind::kNfc:
      return IsAscii(text) ? text : UnicodeForm(text, /*compose=*/true, /*compatibility=*/false);
    case Kind::kNfd:
      return IsAscii(text) ? text : UnicodeForm(text, /*compose=*/false, /*compatibility=*/false);
    case Kind::kNfkc:
      return IsAscii(text) ? text : UnicodeForm(text, /*compose=*/true, /*compatibility=*/true);
    case Kind::kNfkd:
      return IsAscii(text) ? text : UnicodeForm(text, /*compose=*/false, /*compatibility=*/true);
    case Kind::kLowercase:
      return Lowercase(text);
    case Kind::kStrip:
      return Strip(text, step.strip_left, step.strip_right);
    case Kind::kStripAccents:
      return StripAccents(text);
    case Kind::kCollapseSpaces:
      return CollapseSpaces(text);
  }
  return InternalError("normalizer: step kind {}", static_cast<int>(step.kind));
}

StatusOr<std::string> Normalizer::Normalize(std::string_view utf8) const {
  std::string text(utf8);
  for (const CompiledStep& step : steps_) {
    ASSIGN_OR_RETURN(text, Apply(step, std::move(text)));
  }
  return text;
}

}  // namespace paceline
