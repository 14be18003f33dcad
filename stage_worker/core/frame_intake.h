// FrameIntake: the frames that a later stage got from the one before, in order of arrival, and the check that
// a frame and its plan say the same (P4).
//
// Owned by the StageCore of every stage but the first. Nothing here decides: the order is stage 0's.
#pragma once

#include <cstddef>
#include <deque>

#include "common/base/status.h"
#include "common/protocol/frame.h"
#include "common/protocol/step_plan.h"
#include "stage_worker/core/executor.h"

namespace paceline {

struct Frame {
  FrameHeader header;
  PayloadHandle payload;
};

// The peer's header is consistent in itself: row ranges tile the rows, the digest is right (B062).
Status CheckFrame(const FrameHeader& header);
// Each of the plan's sequences is in the frame, in its order and with its lineage; the rows are as many as
// the plan allows.
Status CheckFrameAgainstPlan(const FrameHeader& header, const StepPlan& plan);

class FrameIntake {
 public:
  // FIFO. An error is a peer that broke the protocol.
  Status Add(Frame frame);
  const Frame* front() const { return frames_.empty() ? nullptr : &frames_.front(); }
  Frame Take();
  size_t size() const { return frames_.size(); }

 private:
  std::deque<Frame> frames_;
};

}  // namespace paceline
