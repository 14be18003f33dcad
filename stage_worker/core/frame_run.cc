#include "stage_worker/core/frame_run.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace paceline {

StatusOr<FrameRun> FrameRun::Start(Frame frame, const StepPlan& plan, const FrameRunOptions& options,
                                   SequenceBook& book) {
  RETURN_IF_ERROR(CheckFrameAgainstPlan(frame.header, plan));
  FrameRun run;
  run.frame_ = std::move(frame);
  run.options_ = options;
  run.work_.generation = plan.generation;
  run.work_.step = plan.step;
  run.work_.payload_rows = static_cast<uint32_t>(run.frame_.header.rows.size());
  run.work_.input = run.frame_.payload;
  run.judgements_.resize(plan.sequences.size());
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    RETURN_IF_ERROR(run.AddSequence(plan.sequences[i], run.frame_.header.sequences[i], book));
  }
  run.rows_run_ = static_cast<uint32_t>(run.work_.rows.size());
  return run;
}

Status FrameRun::AddSequence(const SequencePlan& plan, FrameSequence& frame, SequenceBook& book) {
  book.Note(plan.sequence, plan.lineage);
  StageSequence& state = book.Get(KeyOf(plan.sequence, plan.lineage));
  if (book.IsStale(plan.sequence, plan.lineage)) frame.live = false;
  if (frame.live || options_.broken != ProtocolBreak::kP2SkipsDeltasOfDeadRows) {
    RETURN_IF_ERROR(state.table.Apply(plan.blocks));  // P2
  }
  if (!frame.live) {
    AddWork(plan, frame, state);
    return OkStatus();
  }
  const std::span<const FrameRow> rows = RowsOf(frame);
  if (!rows.empty() && rows.back().slot >= state.table.SlotsCovered(options_.kv_block_size)) {
    return DataLossError("seq {}: a row is at slot {}, its table covers {}", plan.sequence, rows.back().slot,
                         state.table.SlotsCovered(options_.kv_block_size));
  }
  Judgement& judgement = judgements_[&frame - frame_.header.sequences.data()];
  if (options_.last_stage) {
    ASSIGN_OR_RETURN(judgement, JudgeRows(frame, rows, state, options_.broken));
    if (judgement.off_position) ++positions_off_;
    if (judgement.off_position || judgement.refused) {
      frame.live = false;
      book.Note(plan.sequence, {plan.lineage.coordinator, state.refusals});
    }
  } else {
    judgement.runs = !rows.empty();
  }
  AddWork(plan, frame, state);
  return OkStatus();
}

void FrameRun::AddWork(const SequencePlan& plan, const FrameSequence& frame, const StageSequence& state) {
  const Judgement& judgement = judgements_[&frame - frame_.header.sequences.data()];
  if (!judgement.runs && plan.moves.empty()) return;
  WorkSequence sequence;
  sequence.key = KeyOf(plan.sequence, plan.lineage);
  sequence.blocks = state.table.blocks();
  sequence.moves = plan.moves;
  sequence.row_begin = static_cast<uint32_t>(work_.rows.size());
  if (judgement.runs) {
    sequence.row_count = frame.row_count;
    sequence.draws = judgement.draws;
    sequence.judge_begin = judgement.judge_begin;
    for (uint32_t i = 0; i < frame.row_count; ++i) {
      const FrameRow& row = frame_.header.rows[frame.row_begin + i];
      work_.rows.push_back({row.id, row.position, row.slot, frame.row_begin + i,
                            /*prefix_len=*/row.position + 1, /*tail_begin=*/0, /*tail_count=*/0});
    }
    sequence.draw_position = work_.rows[sequence.row_begin + judgement.judge_begin].position + 1;
  }
  work_.sequences.push_back(std::move(sequence));
}

std::vector<SequenceKey> FrameRun::MarkStale(SequenceId sequence, const SequenceBook& book) {
  std::vector<SequenceKey> died;
  for (FrameSequence& frame : frame_.header.sequences) {
    if (frame.sequence != sequence || !frame.live || frame.row_count == 0) continue;
    if (!book.IsStale(frame.sequence, frame.lineage)) continue;
    // On the last stage it is the executor's result that says whether the rows were still drawn.
    if (!options_.last_stage) frame.live = false;
    died.push_back(KeyOf(frame.sequence, frame.lineage));
  }
  return died;
}

FrameHeader FrameRun::MakeHeaderForNext() const {
  FrameHeader header = frame_.header;
  header.payload_checksum = 0;
  header.digest = FrameDigest(header);
  return header;
}

StatusOr<Verdict> FrameRun::MakeVerdict(ExecutionResult result, SequenceBook& book) const {
  Verdict verdict;
  verdict.generation = frame_.header.generation;
  verdict.step = frame_.header.step;
  verdict.compute_micros = result.compute_micros;
  for (size_t i = 0; i < frame_.header.sequences.size(); ++i) {
    const FrameSequence& frame = frame_.header.sequences[i];
    const SequenceKey key = KeyOf(frame.sequence, frame.lineage);
    StageSequence& state = book.Get(key);
    const auto found = std::find_if(result.sequences.begin(), result.sequences.end(),
                                    [&](const SequenceResult& r) { return r.key == key; });
    const bool has_result = found != result.sequences.end();
    if (!judgements_[i].runs || (has_result && found->died)) {
      verdict.sequences.push_back(ConcludeWithoutRun(frame, judgements_[i], state));
      continue;
    }
    if (judgements_[i].draws && !has_result) {
      return InternalError("step {}: the executor gave no result for seq {}", verdict.step, frame.sequence);
    }
    ASSIGN_OR_RETURN(SequenceVerdict part,
                     ConcludeRun(frame, RowsOf(frame), judgements_[i],
                                 has_result ? std::move(*found) : SequenceResult{}, state));
    book.Note(frame.sequence, part.lineage);
    verdict.sequences.push_back(std::move(part));
  }
  return verdict;
}

}  // namespace paceline
