// Hand-written scanners of the pre-tokenizer patterns that model families use.
//
// Each has one function MatchAt that returns the end of the match at a position, as the regular expression
// would: alternatives in order, greedy with backtracking. Where backtracking can only give one other answer
// (the last code point of a white-space run, an optional code point in front), that answer is written out.

#include <algorithm>
#include <string>

#include "common/text/scanner.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

using Text = std::u32string_view;

bool Is(char32_t c, CategoryMask mask) { return (MaskOf(c) & mask) != 0; }

size_t RunEnd(Text text, size_t i, CategoryMask mask) {
  while (i < text.size() && Is(text[i], mask)) ++i;
  return i;
}

size_t RunEndOutside(Text text, size_t i, CategoryMask mask) {
  while (i < text.size() && !Is(text[i], mask)) ++i;
  return i;
}

size_t NewlinesEnd(Text text, size_t i, bool slash_too) {
  while (i < text.size() && (IsNewline(text[i]) || (slash_too && text[i] == U'/'))) ++i;
  return i;
}

// `\s+(?!\S)|\s+` on the run [i, end): all of it at the end of the text; else all but the last code point,
// which belongs to what follows, unless it is the only one.
size_t TrailingSpaceEnd(Text text, size_t i, size_t end) {
  return end == text.size() || end - i == 1 ? end : end - 1;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`, or i if text[i] is no white space.
size_t SpaceEnd(Text text, size_t i) {
  const size_t end = RunEnd(text, i, kWhiteSpace);
  if (end == i) return i;
  for (size_t last = end; last > i; --last) {
    if (IsNewline(text[last - 1])) return last;
  }
  return TrailingSpaceEnd(text, i, end);
}

char32_t FoldAscii(char32_t c) {
  if (c == U'\u017F') return U's';  // long s folds to s
  return c >= U'A' && c <= U'Z' ? c + 32 : c;
}

// The end of 's 't 're 've 'm 'll 'd at i, or i.
size_t ContractionEnd(Text text, size_t i, bool ignore_case) {
  if (i + 1 >= text.size() || text[i] != U'\'') return i;
  const auto at = [&](size_t k) {
    if (k >= text.size()) return U'\0';
    return ignore_case ? FoldAscii(text[k]) : text[k];
  };
  const char32_t a = at(i + 1), b = at(i + 2);
  if (a == U's' || a == U't' || a == U'm' || a == U'd') return i + 2;
  if ((a == U'r' && b == U'e') || (a == U'v' && b == U'e') || (a == U'l' && b == U'l')) return i + 3;
  return i;
}

template <typename Rules>
class RuleScanner : public Scanner {
 public:
  explicit RuleScanner(Rules rules) : rules_(rules) {}

  Status FindAll(Text text, std::vector<TextRange>* matches) const override {
    for (size_t i = 0; i < text.size();) {
      const size_t end = rules_.MatchAt(text, i);
      if (end > i) matches->push_back({i, end});
      i = end > i ? end : i + 1;
    }
    return OkStatus();
  }

 private:
  Rules rules_;
};

struct Gpt2Rules {
  size_t MatchAt(Text text, size_t i) const {
    if (const size_t end = ContractionEnd(text, i, /*ignore_case=*/false); end > i) return end;
    const size_t start = text[i] == U' ' && i + 1 < text.size() ? i + 1 : i;
    const CategoryMask mask = MaskOf(text[start]);
    if (mask & kLetter) return RunEnd(text, start, kLetter);
    if (mask & kNumber) return RunEnd(text, start, kNumber);
    if (!(mask & kWhiteSpace)) return RunEndOutside(text, start, kWhiteSpace | kLetter | kNumber);
    return TrailingSpaceEnd(text, i, RunEnd(text, i, kWhiteSpace));
  }
};

// Llama 3 and Qwen: `word` is what a word is made of (letters, for Qwen 3.5 also marks).
struct Llama3Rules {
  CategoryMask word = kLetter;
  size_t digits_max = 3;

  size_t MatchAt(Text text, size_t i) const {
    if (const size_t end = ContractionEnd(text, i, /*ignore_case=*/true); end > i) return end;
    const char32_t c = text[i];
    const bool may_lead = !IsNewline(c) && !Is(c, kLetter | kNumber);
    if (may_lead && i + 1 < text.size() && Is(text[i + 1], word)) return RunEnd(text, i + 1, word);
    if (Is(c, word)) return RunEnd(text, i, word);
    if (Is(c, kNumber)) return RunEnd(text.substr(0, std::min(text.size(), i + digits_max)), i, kNumber);
    const size_t start = c == U' ' ? i + 1 : i;
    const size_t end = RunEndOutside(text, start, kWhiteSpace | word | kLetter | kNumber);
    if (end > start) return NewlinesEnd(text, end, /*slash_too=*/false);
    return SpaceEnd(text, i);
  }
};

struct DeepSeekV3Rules {
  size_t MatchAt(Text text, size_t i) const {
    const char32_t c = text[i];
    const char32_t next = i + 1 < text.size() ? text[i + 1] : U'\0';
    if (c < 0x80 && IsBertPunctuation(c) && IsAsciiLetter(next)) return AsciiLettersEnd(text, i + 1);
    const bool may_lead = !IsNewline(c) && !Is(c, kLetter | kPunctuation | kSymbol);
    if (may_lead && i + 1 < text.size() && Is(next, kLetter | kMark)) {
      return RunEnd(text, i + 1, kLetter | kMark);
    }
    if (Is(c, kLetter | kMark)) return RunEnd(text, i, kLetter | kMark);
    const size_t start = c == U' ' ? i + 1 : i;
    const size_t end = RunEnd(text, start, kPunctuation | kSymbol);
    if (end > start) return NewlinesEnd(text, end, /*slash_too=*/false);
    return SpaceEnd(text, i);
  }

  static bool IsAsciiLetter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }
  static size_t AsciiLettersEnd(Text text, size_t i) {
    while (i < text.size() && IsAsciiLetter(text[i])) ++i;
    return i;
  }
};

// Tekken (Mistral) and GPT-4o: words change from upper to lower case once.
struct MixedCaseRules {
  bool contractions = false;
  size_t digits_max = 1;

  static constexpr CategoryMask kUpper = kUppercase | kTitlecase | kModifierLetter | kOtherLetter | kMark;
  static constexpr CategoryMask kLower = kLowercase | kModifierLetter | kOtherLetter | kMark;

  size_t MatchAt(Text text, size_t i) const {
    if (const size_t end = WordEnd(text, i); end > i) {
      return contractions ? ContractionEnd(text, end, /*ignore_case=*/true) : end;
    }
    const char32_t c = text[i];
    if (Is(c, kNumber)) return RunEnd(text.substr(0, std::min(text.size(), i + digits_max)), i, kNumber);
    const size_t start = c == U' ' ? i + 1 : i;
    const size_t end = RunEndOutside(text, start, kWhiteSpace | kLetter | kNumber);
    if (end > start) return NewlinesEnd(text, end, /*slash_too=*/true);
    return SpaceEnd(text, i);
  }

  // Both word alternatives, each with and without the code point in front.
  static size_t WordEnd(Text text, size_t i) {
    const bool may_lead = !IsNewline(text[i]) && !Is(text[i], kLetter | kNumber);
    if (may_lead) {
      if (const size_t end = UpperStarLowerPlus(text, i + 1); end > i + 1) return end;
    }
    if (const size_t end = UpperStarLowerPlus(text, i); end > i) return end;
    if (may_lead) {
      if (const size_t end = UpperPlusLowerStar(text, i + 1); end > i + 1) return end;
    }
    return UpperPlusLowerStar(text, i);
  }

  // `U*W+`: if nothing of W follows the run of U, the run gives back down to its last member of W.
  static size_t UpperStarLowerPlus(Text text, size_t i) {
    const size_t upper_end = RunEnd(text, i, kUpper);
    if (const size_t end = RunEnd(text, upper_end, kLower); end > upper_end) return end;
    for (size_t k = upper_end; k > i; --k) {
      if (Is(text[k - 1], kLower)) return k;
    }
    return i;
  }

  static size_t UpperPlusLowerStar(Text text, size_t i) {
    const size_t upper_end = RunEnd(text, i, kUpper);
    return upper_end == i ? i : RunEnd(text, upper_end, kLower);
  }
};

template <typename Rules>
std::unique_ptr<Scanner> Make(Rules rules) {
  return std::make_unique<RuleScanner<Rules>>(rules);
}

// Files write \r and \n in a class as escapes or as the control characters themselves.
std::string WithEscapedNewlines(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::unique_ptr<Scanner> MakeKnownScanner(std::string_view pattern) {
  const std::string escaped = WithEscapedNewlines(pattern);
  if (escaped == kGpt2Pattern) return Make(Gpt2Rules{});
  if (escaped == kLlama3Pattern) return Make(Llama3Rules{.word = kLetter, .digits_max = 3});
  if (escaped == kQwen2Pattern) return Make(Llama3Rules{.word = kLetter, .digits_max = 1});
  if (escaped == kQwen35Pattern) return Make(Llama3Rules{.word = kLetter | kMark, .digits_max = 1});
  if (escaped == kDeepSeekV3Pattern) return Make(DeepSeekV3Rules{});
  if (escaped == kTekkenPattern) return Make(MixedCaseRules{.contractions = false, .digits_max = 1});
  if (escaped == kGpt4oPattern) return Make(MixedCaseRules{.contractions = true, .digits_max = 3});
  return nullptr;
}

}  // namespace paceline
