// Text to token ids and back, equal to the tokenizer the model was trained with.
//
// Made from a TokenizerSpec (a loader reads one from a file; open_tokenizer.h does both). Immutable after
// Create and free of hidden state: any thread may use it. Encoding takes O(n log n) time in the text whatever
// the model.
//
// Failure: Create refuses a spec that contradicts itself or names something not supported, with the name.
// Encode refuses text that is not UTF-8 (InvalidArgument), and text over a limit (ResourceExhausted): nothing
// is cut silently.
//
//   ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenizer->Encode("Hello world", {.add_special_tokens =
//   true})); std::string text = tokenizer->Decode(ids);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/status.h"
#include "common/protocol/types.h"
#include "common/text/added_tokens.h"
#include "common/text/decode_plan.h"
#include "common/text/normalizer.h"
#include "common/text/pre_tokenizer.h"
#include "common/text/token_model.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

struct EncodeOptions {
  bool add_special_tokens = true;    // BOS, EOS as the model says
  bool parse_special_tokens = true;  // control tokens written in the text become their ids
  size_t tokens_max = SIZE_MAX;      // more is ResourceExhausted
};

struct DecodeOptions {
  bool skip_special_tokens = true;
};

class Tokenizer {
 public:
  static StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerSpec spec);

  StatusOr<std::vector<TokenId>> Encode(std::string_view utf8, const EncodeOptions& options = {}) const;
  // A prompt that a chat template has written. Templates print BOS themselves, so the default adds nothing;
  // with add_special_tokens BOS is put in front unless the text already begins with it. Never twice.
  StatusOr<std::vector<TokenId>> EncodeChatPrompt(std::string_view rendered,
                                                  EncodeOptions options = {
                                                      .add_special_tokens = false}) const;

  // The text of ids from the start of a text, valid UTF-8. Ids outside the vocabulary add nothing. Equal to
  // the reference, with one difference: where byte-fallback tokens spell a bad character, only its bytes
  // become U+FFFD, not the good characters beside it (a stream has shown those already).
  std::string Decode(std::span<const TokenId> ids, const DecodeOptions& options = {}) const;

  // Raw bytes the token stands for inside a text (may be part of a character); empty for an unknown id.
  std::string_view TokenBytes(TokenId id) const;
  // The token as the file writes it ("\u0120Hello", "<0x0A>"); empty for an unknown id.
  std::string_view TokenText(TokenId id) const;
  std::optional<TokenId> TokenToId(std::string_view text) const;
  bool IsSpecial(TokenId id) const { return plan_.IsSpecial(id); }

  // One more than the largest id. The model's logits may have more rows (padding) or, in a broken pair,
  // fewer.
  uint32_t vocab_size() const { return static_cast<uint32_t>(texts_.size()); }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  std::string_view bos_text() const { return bos_ ? TokenText(*bos_) : std::string_view(); }
  std::string_view eos_text() const { return eos_ ? TokenText(*eos_) : std::string_view(); }
  // Whether Encode puts BOS in front.
  bool adds_bos() const { return bos_ && !prefix_.empty() && prefix_.front() == *bos_; }

  // Names the vocabulary (id -> text) in 32 hex digits: two tokenizers with the same digest mean the same by
  // an id.
  const std::string& Digest() const { return digest_; }

  const DecodePlan& decode_plan() const { return plan_; }

 private:
  Tokenizer() = default;
  Status EncodePiece(std::string_view raw, bool at_text_start, const EncodeOptions& options,
                     std::vector<TokenId>* ids) const;
  Status EncodeText(std::string_view normalized, bool at_text_start, const EncodeOptions& options,
                    std::vector<TokenId>* ids) const;
  void IndexTexts(const TokenizerSpec& spec);

  std::vector<std::string> texts_;                                                        // id -> text
  absl::flat_hash_map<std::string_view, TokenId, ViewHash, std::equal_to<>> id_of_text_;  // keys in texts_
  AddedTokenMatcher raw_tokens_;         // searched in the raw text
  AddedTokenMatcher normalized_tokens_;  // searched in the normalized text
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  std::unique_ptr<TokenModel> model_;
  DecodePlan plan_;
  std::vector<TokenId> prefix_;
  std::vector<TokenId> suffix_;
  std::optional<TokenId> bos_;
  std::optional<TokenId> eos_;
  std::string digest_;
};

// ResourceExhausted when `count` is over `tokens_max`.
Status CheckTokenCount(size_t count, size_t tokens_max);

}  // namespace paceline
