// What a decoded message must mean before anybody acts on it: the checks that need no knowledge but the
// message.
//
// Enums in range, ids not negative, row ranges inside their frame, parents before their children, sums that
// fit. InvalidArgument names message, field, value and bound. Generation, vocabulary and context length are
// checked by the receiver, who knows them. Not for messages that we make: those are right or a bug.
#pragma once

#include "common/base/status.h"
#include "common/protocol/frame.h"
#include "common/protocol/message.h"

namespace paceline {

Status CheckMeaning(const WireMessage& message);
Status CheckMeaning(const FrameHeader& header);

}  // namespace paceline
