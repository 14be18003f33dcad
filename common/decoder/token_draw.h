// The draw of a token from its logits: temperature, truncation, noise keyed by position.
//
//   token = argmax over v that survive of (z_v / T + Gumbel(seed, choice, position, v)),  ties: lowest id
//
// which is an exact sample of softmax(z / T) over the survivors (Gumbel-max) and a pure function of logits,
// rules and key. T < 1e-5 is plain argmax. Truncation in order, each over what the one before left:
//   min_p  keeps p >= min_p * p_max
//   top_k  keeps z >= the k-th largest; ties at the threshold all stay
//   top_p  keeps the shortest run of descending p whose mass reaches top_p; among equals the lowest id comes
//          first; the best always stays
// Noise is computed only for ids that can still win, so a draw over 49152 ids asks for a handful of
// logarithms; the result is that of the full scan.
//
// Threading: pure but for the scratch, one per thread, which keeps its memory between calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/philox.h"
#include "common/base/status.h"
#include "common/protocol/sampling_params.h"
#include "common/protocol/types.h"

namespace paceline {

struct Candidate {
  float z = 0;  // logit / T
  TokenId id = 0;
};

struct DrawScratch {
  std::vector<float> scaled;          // [vocab]
  std::vector<Candidate> candidates;  // those that survive truncation
  std::vector<float> heap;            // the k largest, for top_k
};

// `logits` may hold -inf (masked) but no NaN. Errors: DataLoss when the rules pushed the best logit to
// infinity; FailedPrecondition when every id is masked.
StatusOr<TokenId> DrawToken(std::span<const float> logits, const SamplingParams& params, const NoiseKey& key,
                            DrawScratch& scratch);

// The ids that survive, with their logits over T; any order. For tests and for whoever wants the support.
StatusOr<std::vector<Candidate>> Survivors(std::span<const float> logits, const SamplingParams& params);

}  // namespace paceline
