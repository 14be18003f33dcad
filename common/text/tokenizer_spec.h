// What a tokenizer is made of, as plain data: the seam between file formats and the engine.
//
// A loader (tokenizer.json, tokenizer.model, GGUF metadata) fills one and hands it to Tokenizer::Create,
// which checks it. Nothing here has behaviour. A loader refuses by name what the engine does not know, so
// every value below works.
//
//   ASSIGN_OR_RETURN(TokenizerSpec spec, TokenizerSpecFromSentencePiece(bytes));
//   ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Create(std::move(spec)));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/protocol/types.h"

namespace paceline {

enum class TokenizerModelKind { kBpe, kSentencePieceBpe, kUnigram, kWordPiece, kWordLevel };

// Numbered as in GGUF and SentencePiece files.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// A token that is found in the text before the model sees it.
struct AddedToken {
  TokenId id = 0;
  std::string content = {};
  bool single_word = false;  // not beside a word character
  bool lstrip = false;       // swallows white space on its left
  bool rstrip = false;
  bool normalized = false;  // searched in the normalized text instead of the raw one
  bool special = false;     // control token: skipped on decode, found only when special tokens are parsed
};

struct NormalizerStep {
  enum class Kind {
    kPrepend,         // content in front of a piece
    kReplace,         // pattern -> content, everywhere
    kNfc,             // Unicode normalization forms
    kNfd,             //
    kNfkc,            //
    kNfkd,            //
    kLowercase,       //
    kStrip,           // white space at the ends
    kStripAccents,    // drops combining marks
    kCollapseSpaces,  // SentencePiece remove_extra_whitespaces: trims U+0020 and joins runs of it
  };
  Kind kind = Kind::kPrepend;
  std::string pattern = {};
  bool pattern_is_regex = false;
  std::string content = {};
  bool strip_left = true;
  bool strip_right = true;
};

enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
enum class PrependScheme { kAlways, kFirst, kNever };

struct PreTokenizerStep {
  enum class Kind {
    kSplit,            // pattern, behavior, invert
    kByteLevel,        // add_prefix_space, use_regex; then bytes become their alphabet
    kMetaspace,        // replacement, prepend, split
    kDigits,           // individual_digits
    kPunctuation,      // behavior
    kWhitespace,       // words and runs of other visible characters
    kWhitespaceSplit,  // anything between white space
    kBert,             // white space removed, punctuation isolated
  };
  Kind kind = Kind::kSplit;
  std::string pattern = {};
  bool pattern_is_regex = true;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  bool add_prefix_space = false;
  bool use_regex = true;
  char32_t replacement = U'\u2581';
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
  bool individual_digits = false;
};

struct DecoderStep {
  enum class Kind {
    kByteLevel,     // alphabet -> bytes
    kReplace,       // pattern (a plain string) -> content, in each token
    kByteFallback,  // <0xHH> -> bytes
    kFuse,          // one text from here on
    kStrip,         // up to start_count copies of content at the left of the fused text
    kMetaspace,     // content (replacement) -> ' ', dropped in the first token unless prepend is kNever
    kWordPiece,     // content (prefix) dropped, other tokens get a space in front
  };
  Kind kind = Kind::kFuse;
  std::string pattern = {};
  std::string content = {};
  uint32_t start_count = 0;
  PrependScheme prepend = PrependScheme::kAlways;
  bool cleanup = false;
};

struct TokenizerSpec {
  TokenizerModelKind model = TokenizerModelKind::kBpe;
  std::vector<std::string> tokens;                          // id -> text; empty = no such id
  std::vector<TokenType> types;                             // as long as tokens
  std::vector<double> scores;                               // kSentencePieceBpe, kUnigram: as long as tokens
  std::vector<std::pair<std::string, std::string>> merges;  // kBpe: by rank
  std::vector<AddedToken> added_tokens;

  std::vector<NormalizerStep> normalizer;
  std::vector<PreTokenizerStep> pre_tokenizer;
  std::vector<DecoderStep> decoder;  // empty: tokens are joined with a space
  // Added tokens decode to their own text even where the decoder would read it as the byte alphabet (GGUF).
  // False: they go through the decoder like any token (tokenizer.json).
  bool added_tokens_decode_raw = false;

  bool ignore_merges = false;  // kBpe: a split that is a token is that token
  bool byte_fallback = false;
  bool fuse_unknown = false;
  std::optional<TokenId> unknown;
  std::string continuing_prefix = "##";  // kWordPiece
  uint32_t word_chars_max = 100;         // kWordPiece: longer words are unknown

  std::vector<TokenId> prefix;  // what add_special_tokens puts in front (BOS) ...
  std::vector<TokenId> suffix;  // ... and behind (EOS)
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
};

}  // namespace paceline
