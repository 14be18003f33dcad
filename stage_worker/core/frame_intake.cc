#include "stage_worker/core/frame_intake.h"

#include <utility>

#include "common/base/check.h"

namespace paceline {

Status CheckFrame(const FrameHeader& header) {
  if (header.digest != FrameDigest(header)) {
    return DataLossError("step {}: the frame's digest is {:x}, its rows give {:x}", header.step,
                         header.digest, FrameDigest(header));
  }
  uint64_t row = 0;
  for (const FrameSequence& sequence : header.sequences) {
    if (sequence.row_begin != row || sequence.num_drafted > sequence.row_count) {
      return DataLossError("step {} seq {}: rows begin at {}, want {}; {} drafted of {}", header.step,
                           sequence.sequence, sequence.row_begin, row, sequence.num_drafted,
                           sequence.row_count);
    }
    row += sequence.row_count;
  }
  if (row != header.rows.size()) {
    return DataLossError("step {}: sequences have {} rows, the frame has {}", header.step, row,
                         header.rows.size());
  }
  return OkStatus();
}

Status CheckFrameAgainstPlan(const FrameHeader& header, const StepPlan& plan) {
  if (header.sequences.size() != plan.sequences.size()) {
    return DataLossError("step {}: the frame has {} sequences, the plan {}", header.step,
                         header.sequences.size(), plan.sequences.size());
  }
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    const FrameSequence& frame = header.sequences[i];
    const SequencePlan& planned = plan.sequences[i];
    const uint64_t rows_max = planned.known_ids.size() + uint64_t{planned.draft_len_max};
    if (frame.sequence != planned.sequence || frame.lineage != planned.lineage ||
        frame.draws != planned.draws || frame.row_count > rows_max) {
      return DataLossError(
          "step {} entry {}: the frame has seq {} with {} rows, the plan seq {} with at most {}", header.step,
          i, frame.sequence, frame.row_count, planned.sequence, rows_max);
    }
  }
  return OkStatus();
}

Status FrameIntake::Add(Frame frame) {
  RETURN_IF_ERROR(CheckFrame(frame.header));
  frames_.push_back(std::move(frame));
  return OkStatus();
}

Frame FrameIntake::Take() {
  CHECK(!frames_.empty());
  Frame frame = std::move(frames_.front());
  frames_.pop_front();
  return frame;
}

}  // namespace paceline
