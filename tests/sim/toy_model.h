// The toy model: the next token is a hash of all ids before it, read back through the K/V blocks.
//
// Each stage stores at a row's slot what came for it, and folds over everything it reads at the slots of the
// positions below. A wrong block, slot, rewind or a missing row at any stage changes the fold, and with it
// the token: the right output of any schedule is known without weights and without a schedule.
//
// Watchmen (protocol.md): every cell remembers who wrote it; a read by another owner is a failure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "coordinator/request/generation.h"
#include "draft_worker/proposer.h"
#include "stage_worker/core/executor.h"

namespace paceline::sim {

// What travels for one row: its own value and the fold up to it.
struct ToyRow {
  uint64_t value = 0;
  uint64_t fold = 0;
};
using ToyPayload = std::vector<ToyRow>;

struct ToyVocabulary {
  uint32_t size = 30;
};

// The target's token at position ids.size().
TokenId NextToken(std::span<const TokenId> ids, const SamplingParams& sampling,
                  const ToyVocabulary& vocabulary);
// A number that is right only for this token at this position.
float ToyLogprob(TokenId id, Position position);

// One stage's device: blocks of cells.
class ToyExecutor {
 public:
  struct Options {
    uint32_t stage = 0;
    bool last = false;
    ToyVocabulary vocabulary;
    uint32_t max_model_len = 0;
  };
  explicit ToyExecutor(Options options) : options_(options) {}

  void Reset(uint32_t kv_blocks, uint32_t kv_block_size);
  void Admit(const Admission& admission);
  void Forget(const SequenceKey& key) { sequences_.erase(key); }
  // `died`: sequences whose rows are skipped. `failure` gets the first watchman that cried.
  ExecutionResult Run(const StageWork& work, const ToyPayload* input, const std::set<SequenceKey>& died,
                      ToyPayload& output, std::string& failure);
  size_t sequences_known() const { return sequences_.size(); }

 private:
  struct Cell {
    uint64_t value = 0;
    SequenceKey owner;
    bool written = false;
  };
  Cell& At(const WorkSequence& sequence, Slot slot, std::string& failure);
  void RunRow(const WorkSequence& sequence, const WorkRow& row, const ToyPayload* input, ToyRow& out,
              std::string& failure);
  SequenceResult Draw(const WorkSequence& sequence, const StageWork& work, const ToyPayload& output,
                      std::string& failure);

  Options options_;
  uint32_t block_size_ = 1;
  std::vector<Cell> cells_;
  Cell outside_;  // where a slot out of range lands after the failure was noted
  std::map<SequenceKey, Admission> sequences_;
};

// Agrees with the target with a probability that is a pure function of the ids.
class ToyProposer : public Proposer {
 public:
  ToyProposer(double agreement, uint64_t seed, ToyVocabulary vocabulary)
      : agreement_(agreement), seed_(seed), vocabulary_(vocabulary) {}

  void Admit(const Admission& admission) override;
  void Release(const SequenceKey& key) override { copies_.erase(key); }
  void Reset() override { copies_.clear(); }
  std::vector<std::vector<TokenId>> Propose(std::span<const ProposeItem> items) override;
  size_t sequences_known() const { return copies_.size(); }

 private:
  struct Copy {
    std::vector<TokenId> ids;
    SamplingParams sampling;
  };
  double agreement_;
  uint64_t seed_;
  ToyVocabulary vocabulary_;
  std::map<SequenceKey, Copy> copies_;
};

// A text per id, and a stop "string": two ids in a row.
class PairWatcher : public TextWatcher {
 public:
  PairWatcher(TokenId first, TokenId second) : first_(first), second_(second) {}
  bool OnToken(TokenId id, bool searchable, bool hidden) override;
  std::string TakeText(bool finished) override;
  std::string stop_string() const override { return stop_string_; }

 private:
  TokenId first_;
  TokenId second_;
  TokenId before_ = -1;  // the last searchable id
  std::string text_;
  std::string stop_string_;
};

// What the request must answer, token by token, without any machinery.
struct ExpectedAnswer {
  std::vector<TokenId> ids;
  std::string text;
  FinishReason finish = FinishReason::kNone;
};
struct StopPair {
  bool present = false;
  TokenId first = 0;
  TokenId second = 0;
};
ExpectedAnswer PlainAnswer(const std::vector<TokenId>& prompt, const SamplingParams& sampling,
                           const StopPair& pair, uint32_t max_model_len, const ToyVocabulary& vocabulary);

}  // namespace paceline::sim
