// The first bytes on a tensor connection: who connects for which edge, and the listener's answer.
//
// Internal to common/tensor_transport. Fixed-size, little endian, magic first: random bytes, HTTP or an older
// build are recognised from the first record. The answer carries the limits that both ends keep.
//
//   connector -> listener   EdgeHello   48 bytes
//   listener  -> connector  EdgeAnswer  288 bytes (and, on unix sockets, three descriptors: shm_channel.h)
//   connector -> listener   one byte    "I have your answer": a connector whose patience ended while the
//   answer
//                                       travelled has not taken the place of its own next try
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "common/base/status.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {

inline constexpr uint32_t kEdgeProtocolVersion = 1;
inline constexpr size_t kEdgeHelloBytes = 48;
inline constexpr size_t kEdgeAnswerBytes = 288;
inline constexpr std::byte kEdgeConfirm{'K'};

std::array<std::byte, kEdgeHelloBytes> EncodeHello(const EdgeId& edge);
// False as soon as the first bytes that arrived cannot be a hello's.
bool MayBeHello(std::span<const std::byte> first_bytes);
// InvalidArgument: no hello of ours; FailedPrecondition: another version of this protocol.
StatusOr<EdgeId> DecodeHello(std::span<const std::byte, kEdgeHelloBytes> bytes);

enum class EdgeVerdict : uint32_t {
  kAccepted = 0,
  kRefused = 1,  // for good: stale generation, other stages, other version
  kNotYet = 2,   // the listener has not heard of this generation: try again
};

struct EdgeAnswer {
  EdgeVerdict verdict = EdgeVerdict::kAccepted;
  std::string reason;  // why not, at most 240 bytes
  TensorLimits limits;
};

std::array<std::byte, kEdgeAnswerBytes> EncodeAnswer(const EdgeAnswer& answer);
StatusOr<EdgeAnswer> DecodeAnswer(std::span<const std::byte, kEdgeAnswerBytes> bytes);

// What a listener that wants `expected` says to `offered`.
EdgeAnswer Judge(const EdgeId& expected, const EdgeId& offered, const TensorLimits& limits);

}  // namespace paceline
