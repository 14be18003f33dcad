#include "stage_worker/core/verdict_builder.h"

#include <utility>

namespace paceline {
namespace {

Lineage LineageOf(const FrameSequence& frame, const StageSequence& state) {
  return {frame.lineage.coordinator, state.refusals};
}

}  // namespace

StatusOr<Judgement> JudgeRows(const FrameSequence& frame, std::span<const FrameRow> rows,
                              StageSequence& state, ProtocolBreak broken) {
  Judgement judgement;
  if (rows.empty()) return judgement;
  const Position first = rows[0].position;
  if (broken == ProtocolBreak::kP11StartsWherePlanned) {
    state.next_row = first;
  } else if (first != state.next_row) {  // P11
    judgement.off_position = true;
    ++state.refusals;
    return judgement;
  }
  const uint32_t drafts_begin = frame.row_count - frame.num_drafted;
  for (uint32_t i = 0; i < rows.size() && first + i < state.ids.size(); ++i) {
    if (rows[i].id == state.ids[first + i]) {
      if (i >= drafts_begin) ++judgement.num_known_equal;
      continue;
    }
    if (i < drafts_begin) {
      return DataLossError("seq {} position {}: the plan says id {}, this stage has {}", frame.sequence,
                           first + i, rows[i].id, state.ids[first + i]);
    }
    // Only the first row of a continuation can be both drafted and drawn before: ids end one behind next_row.
    judgement.refused = true;
    ++state.refusals;
    return judgement;
  }
  judgement.runs = true;
  judgement.draws = frame.draws;
  if (!frame.draws) return judgement;
  const uint64_t judge_begin = state.ids.size() - 1 - first;
  if (judge_begin >= rows.size()) {
    return DataLossError("seq {}: a step that draws ends at position {}, the newest id is at {}",
                         frame.sequence, first + rows.size() - 1, state.ids.size() - 1);
  }
  judgement.judge_begin = static_cast<uint32_t>(judge_begin);
  return judgement;
}

SequenceVerdict ConcludeWithoutRun(const FrameSequence& frame, const Judgement& judgement,
                                   const StageSequence& state) {
  SequenceVerdict verdict;
  verdict.sequence = frame.sequence;
  verdict.lineage = LineageOf(frame, state);
  verdict.live = frame.live && frame.row_count == 0;
  verdict.first_position = static_cast<Position>(state.ids.size());
  verdict.rows_end = state.next_row;
  if (judgement.refused) {
    verdict.live = true;
    verdict.num_drafted = frame.num_drafted;
  }
  return verdict;
}

StatusOr<SequenceVerdict> ConcludeRun(const FrameSequence& frame, std::span<const FrameRow> rows,
                                      const Judgement& judgement, SequenceResult result,
                                      StageSequence& state) {
  SequenceVerdict verdict;
  verdict.sequence = frame.sequence;
  verdict.first_position = static_cast<Position>(state.ids.size());
  verdict.num_drafted = frame.num_drafted;
  verdict.failure = result.failure;
  if (!judgement.draws) {
    state.next_row += frame.row_count;
  } else {
    const uint32_t judged = frame.row_count - judgement.judge_begin - 1;  // drafts behind the first draw
    const bool failed = result.failure != RowFailure::kNone;
    const bool counts_fit =
        result.num_matched <= judged && (failed || result.ids.size() == result.num_matched + size_t{1});
    if (!counts_fit) {
      return InternalError("seq {}: {} ids and {} matched of {} drafts cannot be", frame.sequence,
                           result.ids.size(), result.num_matched, judged);
    }
    for (uint32_t i = 0; i < result.num_matched; ++i) {
      if (result.ids[i] != rows[judgement.judge_begin + 1 + i].id) {
        return InternalError("seq {}: id {} counts as accepted but is not the draft", frame.sequence, i);
      }
    }
    if (failed) result.ids.clear();
    state.ids.insert(state.ids.end(), result.ids.begin(), result.ids.end());
    state.next_row = static_cast<Position>(state.ids.size()) - 1;
    if (failed || result.num_matched < judged) ++state.refusals;  // what follows this frame is dead
    verdict.num_accepted = judgement.num_known_equal + result.num_matched;
    verdict.ids = std::move(result.ids);
    verdict.logprobs = std::move(result.logprobs);
  }
  verdict.rows_end = state.next_row;
  verdict.lineage = LineageOf(frame, state);
  return verdict;
}

}  // namespace paceline
