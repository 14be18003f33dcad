// Codec: messages to bytes and back. FlatBuffers types stop here; schemas/*.fbs is the wire.
//
// What comes from outside is checked before it is read, in this order: length, file identifier, FlatBuffers
// verifier (nesting 16, tables 20 000), protocol major, then meaning (enums in range, ids not negative,
// vectors that belong together equally long, row ranges inside the frame). What only a receiver can judge
// (generation, vocabulary, context length) is the receiver's check.
//
//   const std::vector<std::byte> bytes = Encode(Heartbeat{...});
//   ASSIGN_OR_RETURN(const WireMessage message, Decode(bytes));
//
// Threading: pure functions. Failure: hostile bytes end in a Status, never in a fault; its code says why:
//   ResourceExhausted   longer than the cap
//   InvalidArgument     identifier, structure or meaning wrong
//   FailedPrecondition  another protocol major; the text names both
//   Unimplemented       a kind this build does not know (a newer minor): count it and go on
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/frame.h"
#include "common/protocol/message.h"

namespace paceline {

inline constexpr size_t kControlMessageBytesMax = 1u << 20;
inline constexpr size_t kFrameHeaderBytesMax = 4u << 20;

std::vector<std::byte> Encode(const WireMessage& message);
StatusOr<WireMessage> Decode(std::span<const std::byte> bytes);

// A frame's header lane. The digest is carried, not compared: a stage compares it with its prefetch.
std::vector<std::byte> EncodeFrame(const FrameHeader& header);
StatusOr<FrameHeader> DecodeFrame(std::span<const std::byte> bytes, size_t bytes_max = kFrameHeaderBytesMax);

// Bytes of the payload that belongs to this header: rows x hidden_size x 4 (f32). The receiver compares it
// with what arrived before it looks at a row.
StatusOr<uint64_t> FramePayloadBytes(const FrameHeader& header);

// "StepPlan", "Heartbeat": for logs and errors.
std::string_view KindName(const WireMessage& message);

}  // namespace paceline
