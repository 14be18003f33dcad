// FrameRun: one frame at one stage, from its start to its verdict or its way on.
//
// Owned by StageCore while the frame is here. Start applies the bookkeeping at the frame's place (P2),
// decides which sequences are live, and makes the StageWork; the ends are MakeHeaderForNext and MakeVerdict.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/speculation.h"
#include "common/protocol/step_plan.h"
#include "stage_worker/core/executor.h"
#include "stage_worker/core/frame_intake.h"
#include "stage_worker/core/sequence_book.h"
#include "stage_worker/core/verdict_builder.h"

namespace paceline {

struct FrameRunOptions {
  bool last_stage = false;
  uint32_t kv_block_size = 1;
  ProtocolBreak broken = ProtocolBreak::kNone;
};

class FrameRun {
 public:
  // An error means that a peer contradicts the protocol; nothing was computed.
  static StatusOr<FrameRun> Start(Frame frame, const StepPlan& plan, const FrameRunOptions& options,
                                  SequenceBook& book);

  const FrameHeader& header() const { return frame_.header; }
  PayloadHandle input() const { return frame_.payload; }
  // Anything to run: live rows, or moves of dead ones.
  bool has_work() const { return !work_.sequences.empty(); }
  // Once; the run does not need it afterwards.
  StageWork TakeWork() { return std::move(work_); }
  // A newer lineage came while the rows run: the attempts of that sequence whose rows are dead from now on.
  std::vector<SequenceKey> MarkStale(SequenceId sequence, const SequenceBook& book);

  uint32_t rows_run() const { return rows_run_; }
  uint32_t rows_dead() const { return static_cast<uint32_t>(frame_.header.rows.size()) - rows_run_; }
  uint32_t positions_off() const { return positions_off_; }

  // What the next stage gets: the rows as they came, dead ones marked.
  FrameHeader MakeHeaderForNext() const;
  // Last stage.
  StatusOr<Verdict> MakeVerdict(ExecutionResult result, SequenceBook& book) const;

 private:
  Status AddSequence(const SequencePlan& plan, FrameSequence& frame, SequenceBook& book);
  void AddWork(const SequencePlan& plan, const FrameSequence& frame, const StageSequence& state);
  std::span<const FrameRow> RowsOf(const FrameSequence& frame) const {
    return std::span(frame_.header.rows).subspan(frame.row_begin, frame.row_count);
  }

  Frame frame_;
  FrameRunOptions options_;
  StageWork work_;
  std::vector<Judgement> judgements_;  // one per sequence
  uint32_t rows_run_ = 0;
  uint32_t positions_off_ = 0;
};

}  // namespace paceline
