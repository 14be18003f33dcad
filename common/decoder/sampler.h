// SequenceSampler: draws the target's token at each row of one sequence.
//
// Owned by whoever draws for the sequence (last stage, probabilistic drafter), made from its admission
// record; one thread. Promises: the drawn id is a pure function of (params, ids before it, raw logits of its
// row); it does not depend on earlier draws, on drafts that were refused, on the batch, or on whether the
// sampler was made anew half way (B010, B011, B014). All arithmetic is the same on every machine.
//
//   ASSIGN_OR_RETURN(auto sampler, SequenceSampler::Create({vocab, tokenizer_size}, params, ids,
//   prompt_len)); ASSIGN_OR_RETURN(DrawnToken t, sampler.Draw(row0, sampler.next_position(), scratch));  //
//   judges d1 if (t.id == d1) { sampler.PushDraft(d1); ... Draw(row1, ...) ... } sampler.PopDrafts(); for
//   (TokenId id : emitted) sampler.Append(id);
//
// Invariants: (S1) the position of a draw is the number of ids in the history, drafts included.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/decoder/token_draw.h"
#include "common/decoder/token_history.h"
#include "common/protocol/sampling_params.h"
#include "common/protocol/speculation.h"

namespace paceline {

// The logits row has `num_columns` columns; ids at and beyond `num_token_ids` are padding that no tokenizer
// knows and are never drawn.
struct SamplerVocab {
  uint32_t num_columns = 0;
  uint32_t num_token_ids = 0;
};

struct DrawnToken {
  TokenId id = -1;
  TokenLogprobs logprobs;  // rank 0: the params do not ask for them

  bool has_logprobs() const { return logprobs.rank > 0; }
};

// Buffers of one thread, shared by the samplers it serves; grown at the first draw.
struct SamplerScratch {
  std::vector<float> edited;  // [vocab], after the rules
  DrawScratch draw;
};

class SequenceSampler {
 public:
  // `ids` are prompt and committed output. InvalidArgument names an id of the params or of `ids` outside the
  // vocabulary.
  static StatusOr<SequenceSampler> Create(SamplerVocab vocab, SamplingParams params,
                                          std::span<const TokenId> ids, uint32_t prompt_len);

  // `raw` is the row's logits [num_columns] f32, `position` that of the drawn token. Errors end the request
  // and leave the sampler as it was: DataLoss (NaN or infinite logits, B176), FailedPrecondition (the
  // request's rules mask every id).
  StatusOr<DrawnToken> Draw(std::span<const float> raw, Position position, SamplerScratch& scratch) const;

  void Append(TokenId id);     // commits an output token; no drafts may be pending
  void PushDraft(TokenId id);  // the history of the next row of a chain
  void PopDrafts();            // all pending drafts

  Position next_position() const { return history_.length(); }
  const SamplingParams& params() const { return params_; }
  const TokenHistory& history() const { return history_; }

 private:
  SequenceSampler(SamplerVocab vocab, SamplingParams params, std::span<const TokenId> ids,
                  uint32_t prompt_len);
  // The row that the draw sees: `raw` itself where nothing changes it.
  std::span<const float> EditedRow(std::span<const float> raw, SamplerScratch& scratch) const;

  SamplerVocab vocab_;
  SamplingParams params_;
  TokenHistory history_;
};

}  // namespace paceline
