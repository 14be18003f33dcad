// VerdictBuilder: the last stage's acceptance authority for one sequence of one frame.
//
// Judge runs at the start of the frame: may the rows run, and which of them draws first. Conclude runs when
// the executor is done: it appends the drawn ids, raises the lineage on a refusal and makes the sequence's
// part of the verdict. Both work on the StageSequence alone; the builder has no state.
//
//   ids [5 9 31], next_row 2, frame rows 31@2 7@3 7@4 (two drafts)
//   Judge    -> judge_begin 0: row 31@2 draws position 3
//   Conclude with [7 4] -> ids [5 9 31 7 4], next_row 4, one draft accepted, one refused: lineage (c, n + 1)
//
// A continuation's first row is the earlier frame's bonus id, guessed: it is compared with that id before
// anything runs, and when it is another one the frame is refused at the door.
#pragma once

#include <cstdint>
#include <span>

#include "common/base/status.h"
#include "common/protocol/frame.h"
#include "common/protocol/protocol_break.h"
#include "common/protocol/speculation.h"
#include "stage_worker/core/executor.h"
#include "stage_worker/core/sequence_book.h"

namespace paceline {

struct Judgement {
  bool runs = false;          // rows are computed
  bool refused = false;       // the first row was a wrong guess of a drawn id; the lineage was raised
  bool off_position = false;  // P11: not the next position; the lineage was raised
  bool draws = false;
  uint32_t judge_begin = 0;      // first row that draws
  uint32_t num_known_equal = 0;  // drafted rows that were equal to ids drawn before this frame
};

// `rows` are the sequence's rows of a live, current frame; may be empty. An error means that the
// coordinator's known ids are not the ids of this stage.
StatusOr<Judgement> JudgeRows(const FrameSequence& frame, std::span<const FrameRow> rows,
                              StageSequence& state, ProtocolBreak broken);

// The verdict of rows that did not run or of a frame without rows.
SequenceVerdict ConcludeWithoutRun(const FrameSequence& frame, const Judgement& judgement,
                                   const StageSequence& state);

// The verdict of rows that ran. An error means that the executor's answer is impossible.
StatusOr<SequenceVerdict> ConcludeRun(const FrameSequence& frame, std::span<const FrameRow> rows,
                                      const Judgement& judgement, SequenceResult result,
                                      StageSequence& state);

}  // namespace paceline
