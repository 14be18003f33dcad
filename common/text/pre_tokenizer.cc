#include "common/text/pre_tokenizer.h"

#include <utility>

#include "common/text/byte_alphabet.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

// Every code point of which a predicate holds, one match each.
template <bool (*Predicate)(char32_t)>
class PredicateScanner : public Scanner {
 public:
  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    for (size_t i = 0; i < text.size(); ++i) {
      if (Predicate(text[i])) matches->push_back({i, i + 1});
    }
    return OkStatus();
  }
};

bool IsNumber(char32_t c) { return (MaskOf(c) & kNumber) != 0; }
bool IsSpace(char32_t c) { return (MaskOf(c) & kWhiteSpace) != 0; }

// `\w+|[^\w\s]+`
class WordOrSymbolScanner : public Scanner {
 public:
  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    for (size_t i = 0; i < text.size();) {
      const int kind = Kind(text[i]);
      size_t end = i + 1;
      while (end < text.size() && Kind(text[end]) == kind) ++end;
      if (kind != kSpace) matches->push_back({i, end});
      i = end;
    }
    return OkStatus();
  }

 private:
  static constexpr int kWord = 0, kSymbolic = 1, kSpace = 2;
  static int Kind(char32_t c) { return IsWordCharacter(c) ? kWord : IsSpace(c) ? kSpace : kSymbolic; }
};

// Rebuilds the text split by split; `write` appends the new form of one split.
template <typename Write>
void Rewrite(SplitText* text, Write write) {
  std::u32string out;
  out.reserve(text->text.size() + text->splits.size());
  for (TextRange& split : text->splits) {
    const size_t begin = out.size();
    write(std::u32string_view(text->text).substr(split.begin, split.end - split.begin), split.begin, &out);
    split = {begin, out.size()};
  }
  text->text = std::move(out);
}

void AddPrefixSpace(SplitText* text) {
  Rewrite(text, [](std::u32string_view split, size_t, std::u32string* out) {
    if (!split.starts_with(U' ')) out->push_back(U' ');
    out->append(split);
  });
}

void ReplaceSpaces(const PreTokenizerStep& step, bool at_text_start, SplitText* text) {
  Rewrite(text, [&](std::u32string_view split, size_t begin, std::u32string* out) {
    const bool has_it = split.starts_with(step.replacement) || split.starts_with(U' ');
    const bool wanted = step.prepend == PrependScheme::kAlways ||
                        (step.prepend == PrependScheme::kFirst && at_text_start && begin == 0);
    if (wanted && !has_it) out->push_back(step.replacement);
    for (const char32_t c : split) out->push_back(c == U' ' ? step.replacement : c);
  });
}

void BytesToAlphabet(SplitText* text) {
  Rewrite(text, [](std::u32string_view split, size_t, std::u32string* out) {
    for (const char byte : ToUtf8(split)) out->push_back(AlphabetOfByte(static_cast<uint8_t>(byte)));
  });
}

std::string AlphabetToBytes(std::u32string_view split) {
  std::string bytes;
  bytes.reserve(split.size());
  for (const char32_t c : split) bytes.push_back(static_cast<char>(*ByteOfAlphabet(c)));
  return bytes;
}

}  // namespace

void CutAtMatches(TextRange split, const std::vector<TextRange>& matches, SplitBehavior behavior, bool invert,
                  std::vector<TextRange>* out) {
  struct Piece {
    TextRange range;
    bool is_match;
  };
  std::vector<Piece> pieces;
  pieces.reserve(matches.size() * 2 + 1);
  size_t at = split.begin;
  for (const TextRange& match : matches) {
    if (match.begin > at) pieces.push_back({{at, match.begin}, invert});
    if (match.end > match.begin) pieces.push_back({match, !invert});
    at = match.end;
  }
  if (split.end > at) pieces.push_back({{at, split.end}, invert});

  const size_t first = out->size();
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto& [range, is_match] = pieces[i];
    const bool after_match = i > 0 && pieces[i - 1].is_match;
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (is_match) continue;
        break;
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kContiguous:
        join = i > 0 && after_match == is_match;
        break;
      case SplitBehavior::kMergedWithPrevious:
        join = is_match && i > 0 && !after_match;
        break;
      case SplitBehavior::kMergedWithNext:
        join = !is_match && after_match;
        break;
    }
    if (join && out->size() > first) {
      out->back().end = range.end;
    } else {
      out->push_back(range);
    }
  }
}

StatusOr<std::vector<PreTokenizer::CompiledStep>> PreTokenizer::Compile(const PreTokenizerStep& step) {
  using Kind = PreTokenizerStep::Kind;
  CompiledStep out{.step = step, .scanner = nullptr, .behavior = step.behavior, .invert = step.invert};
  switch (step.kind) {
    case Kind::kSplit:
      if (step.pattern_is_regex) {
        ASSIGN_OR_RETURN(out.scanner, MakeScanner(step.pattern));
      } else {
        std::u32string literal;
        if (!DecodeUtf8(step.pattern, &literal)) {
          return InvalidArgumentError("pre-tokenizer Split: pattern is not UTF-8");
        }
        out.scanner = MakeLiteralScanner(std::move(literal));
      }
      break;
    case Kind::kByteLevel:
      if (step.use_regex) {
        ASSIGN_OR_RETURN(out.scanner, MakeScanner(kGpt2Pattern));
      }
      out.behavior = SplitBehavior::kIsolated;
      break;
    case Kind::kMetaspace:
      if (step.split) out.scanner = MakeLiteralScanner(std::u32string(1, step.replacement));
      out.behavior = SplitBehavior::kMergedWithNext;
      break;
    case Kind::kDigits:
      out.scanner = std::make_unique<PredicateScanner<IsNumber>>();
      out.behavior = step.individual_digits ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
      break;
    case Kind::kPunctuation:
      out.scanner = std::make_unique<PredicateScanner<IsBertPunctuation>>();
      break;
    case Kind::kWhitespace:
      out.scanner = std::make_unique<WordOrSymbolScanner>();
      out.behavior = SplitBehavior::kRemoved;
      out.invert = true;
      break;
    case Kind::kWhitespaceSplit:
      out.scanner = std::make_unique<PredicateScanner<IsSpace>>();
      out.behavior = SplitBehavior::kRemoved;
      break;
    case Kind::kBert: {
      CompiledStep spaces = out;
      spaces.scanner = std::make_unique<PredicateScanner<IsSpace>>();
      spaces.behavior = SplitBehavior::kRemoved;
      out.scanner = std::make_unique<PredicateScanner<IsBertPunctuation>>();
      out.behavior = SplitBehavior::kIsolated;
      return std::vector<CompiledStep>{std::move(spaces), std::move(out)};
    }
  }
  return std::vector<CompiledStep>{std::move(out)};
}

StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer out;
  for (const PreTokenizerStep& step : steps) {
    if (step.kind == PreTokenizerStep::Kind::kByteLevel) {
      if (out.byte_level_) return InvalidArgumentError("pre_tokenizer: ByteLevel twice in one Sequence");
      out.byte_level_ = true;
    }
    if (out.byte_level_ && step.kind == PreTokenizerStep::Kind::kMetaspace) {
      return InvalidArgumentError("pre_tokenizer: Metaspace behind ByteLevel is not supported");
    }
    ASSIGN_OR_RETURN(std::vector<CompiledStep> compiled, Compile(step));
    for (CompiledStep& one : compiled) out.steps_.push_back(std::move(one));
  }
  return out;
}

Status PreTokenizer::ApplyScanner(const CompiledStep& step, SplitText* text) {
  std::vector<TextRange> out;
  std::vector<TextRange> matches;
  for (const TextRange& split : text->splits) {
    matches.clear();
    RETURN_IF_ERROR(step.scanner->FindAll(
        std::u32string_view(text->text).substr(split.begin, split.end - split.begin), &matches));
    for (TextRange& match : matches) match = {match.begin + split.begin, match.end + split.begin};
    CutAtMatches(split, matches, step.behavior, step.invert, &out);
  }
  text->splits = std::move(out);
  return OkStatus();
}

StatusOr<std::vector<std::string>> PreTokenizer::Split(std::string_view utf8, bool at_text_start) const {
  SplitText text;
  if (!DecodeUtf8(utf8, &text.text)) {
    return InvalidArgumentError("text is not UTF-8: want valid UTF-8, found a bad byte behind {} characters",
                                text.text.size());
  }
  text.splits.push_back({0, text.text.size()});
  for (const CompiledStep& step : steps_) {
    if (step.step.kind == PreTokenizerStep::Kind::kMetaspace) ReplaceSpaces(step.step, at_text_start, &text);
    if (step.step.kind == PreTokenizerStep::Kind::kByteLevel && step.step.add_prefix_space) {
      AddPrefixSpace(&text);
    }
    if (step.scanner != nullptr) RETURN_IF_ERROR(ApplyScanner(step, &text));
    if (step.step.kind == PreTokenizerStep::Kind::kByteLevel) BytesToAlphabet(&text);
  }
  std::vector<std::string> out;
  out.reserve(text.splits.size());
  for (const TextRange& split : text.splits) {
    const auto piece = std::u32string_view(text.text).substr(split.begin, split.end - split.begin);
    out.push_back(byte_level_ ? AlphabetToBytes(piece) : ToUtf8(piece));
  }
  return out;
}

}  // namespace paceline
