// Proposal and Verdict: the two published logs.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/protocol/types.h"

namespace paceline {

// Which life of a publisher a message comes from: a restarted draft worker is another incarnation (P19).
using Incarnation = StrongId<struct IncarnationTag, uint64_t>;

struct SequenceProposal {
  SequenceId sequence;
  Lineage lineage;  // of the guess it extends
  // The base (P11): the proposal appends to the ids [0, base), whose running digest (IdDigest) is
  // base_digest. It counts as empty if that is not where stage 0 would put it.
  Position base = 0;
  uint64_t base_digest = 0;
  std::vector<TokenId> ids;  // may be empty; at most the plan's draft_len_max
  std::vector<int32_t>
      parents;  // empty = a chain; else one per id: index of its parent in ids, -1 = the base row

  bool operator==(const SequenceProposal&) const = default;
};

// Exactly one per plan that awaits one.
struct Proposal {
  Generation generation;
  StepId step;
  Incarnation incarnation;
  uint64_t log_sequence = 0;  // counts this publisher's messages, from 1
  std::vector<SequenceProposal> sequences;
  uint32_t draft_micros = 0;  // time the drafter took, 0 = not measured

  bool operator==(const Proposal&) const = default;
};

struct TokenLogprobs {
  float logprob = 0;  // natural log, of the target's raw logits
  uint32_t rank = 0;  // 1 = best
  std::vector<std::pair<TokenId, float>>
      top;  // best first; the drawn token's float is identical here if it is in it

  bool operator==(const TokenLogprobs&) const = default;
};

enum class RowFailure : uint8_t {
  kNone = 0,
  kNotFinite = 1,       // NaN or infinite logits (B176)
  kNothingAllowed = 2,  // the request's own rules mask every id, or cannot be applied
};

struct SequenceVerdict {
  SequenceId sequence;
  Lineage lineage;   // after this verdict: a refusal raised last_stage
  bool live = true;  // false: the rows were dead or not computed, no ids
  // P8: absolute position of ids[0]. A prefill chunk that draws nothing has no ids.
  Position first_position = 0;
  std::vector<TokenId> ids;             // accepted drafts, then the corrected or bonus id
  std::vector<TokenLogprobs> logprobs;  // empty, or one per id
  uint32_t num_drafted = 0;
  uint32_t num_accepted = 0;               // leading drafts that equal the target's own draw
  Position rows_end = 0;                   // position after the last row computed: what prefill has reached
  RowFailure failure = RowFailure::kNone;  // the sequence ends with an error

  bool operator==(const SequenceVerdict&) const = default;
};

// Exactly one per plan (P1), whatever became of its rows.
struct Verdict {
  Generation generation;
  StepId step;
  Incarnation incarnation;
  uint64_t log_sequence = 0;
  std::vector<SequenceVerdict> sequences;
  uint32_t compute_micros = 0;  // last stage's time for the step, 0 = not measured

  bool operator==(const Verdict&) const = default;
};

// Running digest of a sequence's ids: IdDigest(IdDigest(seed, a), b). Order matters; equal prefixes, equal
// digests.
uint64_t IdDigest(uint64_t digest, TokenId id);
inline constexpr uint64_t kEmptyIdDigest = 0x9E3779B97F4A7C15ull;

}  // namespace paceline
