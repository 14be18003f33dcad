// How token ids become text: the decoder chain of a model, worked out once for each token.
//
// Immutable after creation, any thread. A decoder that cannot be worked out per token is refused by name,
// because a stream could then not be equal to the whole.
//
//   ASSIGN_OR_RETURN(DecodePlan plan, DecodePlan::Create(spec));
//   plan.Bytes(15043);   // " Hello" for Llama 2
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/text/tokenizer_spec.h"

namespace paceline {

class DecodePlan {
 public:
  static StatusOr<DecodePlan> Create(const TokenizerSpec& spec);

  bool Knows(TokenId id) const {
    return id >= 0 && static_cast<size_t>(id) < flags_.size() && flags_[Index(id)] != 0;
  }
  bool IsSpecial(TokenId id) const { return Knows(id) && (flags_[Index(id)] & kSpecial) != 0; }
  // The bytes a known token stands for inside a text; they may be part of a character. Lives as long as the
  // plan.
  std::string_view Bytes(TokenId id) const;
  // The same at the start of a text, where some decoders drop a space.
  std::string FirstBytes(TokenId id) const;

  // Bytes that are not UTF-8 show as one U+FFFD each (byte fallback), or as one per maximal subpart
  // (byte-level).
  bool replaces_each_byte() const { return replaces_each_byte_; }
  // Up to strip_count copies of strip_content are dropped at the start of a text.
  const std::string& strip_content() const { return strip_content_; }
  uint32_t strip_count() const { return strip_count_; }

 private:
  enum class Form { kJoinedBySpace, kByteLevel, kSteps, kMetaspace, kWordPiece };
  static constexpr uint8_t kKnown = 1, kSpecial = 2;
  static size_t Index(TokenId id) { return static_cast<size_t>(id); }

  Status ReadSteps(const std::vector<DecoderStep>& steps);
  std::string Work(std::string_view text, bool raw, bool first) const;

  Form form_ = Form::kJoinedBySpace;
  std::vector<DecoderStep> replaces_;  // kSteps: in order; kMetaspace, kWordPiece: the one step
  bool byte_fallback_ = false;
  bool replaces_each_byte_ = false;
  std::string strip_content_;
  uint32_t strip_count_ = 0;

  std::vector<std::string> texts_;  // only where the first token differs
  std::vector<bool> raw_;           // only where some added token decodes to its own text
  std::vector<uint8_t> flags_;
  std::string bytes_;              // of all tokens, back to back
  std::vector<uint64_t> offsets_;  // of each token in bytes_, and the end
};

}  // namespace paceline
