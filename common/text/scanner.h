// Finds the matches of a pre-tokenizer pattern in one split.
//
// The patterns of the model families we know are hand-written scanners (linear, no backtracking), recognised
// by the exact text of the pattern. A pattern that is one run of one class, with an optional class in front,
// is read into a class scanner, linear too. Any other goes to PCRE2 with a work budget that grows with the
// length of the text.
//
// Immutable after creation: any thread may scan. A scanner sees its split only, so look-ahead ends where the
// split does. Failure: InvalidArgument for a pattern we cannot run, ResourceExhausted when PCRE2's budget is
// spent.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Scanner> scanner, MakeScanner("\\p{N}{1,3}"));
//   std::vector<TextRange> matches;
//   RETURN_IF_ERROR(scanner->FindAll(U"12345 a", &matches));   // {0,3} {3,5}
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace paceline {

struct TextRange {
  size_t begin = 0;  // code points
  size_t end = 0;    // one past the last
  bool operator==(const TextRange&) const = default;
};

class Scanner {
 public:
  virtual ~Scanner() = default;
  // Appends the matches from left to right; they do not overlap and are not empty.
  virtual Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const = 0;
};

// A regular expression in the dialect of tokenizer.json (Oniguruma, Ruby syntax).
StatusOr<std::unique_ptr<Scanner>> MakeScanner(std::string_view pattern);
// A plain string.
std::unique_ptr<Scanner> MakeLiteralScanner(std::u32string literal);

// The hand-written scanner of a known pattern, nullptr if there is none.
std::unique_ptr<Scanner> MakeKnownScanner(std::string_view pattern);
// A scanner for `X?Y+`, `Y{n,m}`, `XYZ` of single classes; nullptr if the pattern is something else.
std::unique_ptr<Scanner> MakeClassScanner(std::string_view pattern);
// PCRE2 under limits.
StatusOr<std::unique_ptr<Scanner>> MakeRegexScanner(std::string_view pattern);

// The regular expressions the hand-written scanners stand for.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen35Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kDeepSeekV3Pattern =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
inline constexpr std::string_view kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kGpt4oPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace paceline
