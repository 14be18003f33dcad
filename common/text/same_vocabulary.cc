#include "common/text/same_vocabulary.h"

#include "common/text/open_tokenizer.h"

namespace paceline {

Status CheckSameVocabulary(const std::string& target_model, const std::string& draft_model) {
  ASSIGN_OR_RETURN(const ModelText target, OpenTokenizer(target_model));
  ASSIGN_OR_RETURN(const ModelText draft, OpenTokenizer(draft_model));
  const uint32_t target_size = target.tokenizer->vocab_size();
  const uint32_t draft_size = draft.tokenizer->vocab_size();
  if (target_size != draft_size) {
    return InvalidArgumentError(
        "the draft's vocabulary has {} tokens, the target's {}: want a draft with the same tokenizer",
        draft_size, target_size);
  }
  for (uint32_t id = 0; id < target_size; ++id) {
    const auto token = static_cast<TokenId>(id);
    if (target.tokenizer->TokenBytes(token) != draft.tokenizer->TokenBytes(token)) {
      return InvalidArgumentError(
          "the draft's vocabulary differs from the target's first at id {}: want a draft with the same "
          "tokenizer",
          id);
    }
  }
  return OkStatus();
}

}  // namespace paceline
