#include "common/tensor_transport/edge_hello.h"

#include <algorithm>
#include <cstring>

namespace paceline {
namespace {

constexpr std::array<char, 8> kHelloMagic = {'P', 'C', 'L', 'E', 'D', 'G', 'E', '?'};
constexpr std::array<char, 8> kAnswerMagic = {'P', 'C', 'L', 'E', 'D', 'G', 'E', '!'};
constexpr size_t kReasonBytesMax = 240;

// Writes and reads fields one after the other; sizes are fixed, so nothing can run over.
class Writer {
 public:
  explicit Writer(std::span<std::byte> to) : to_(to) {}
  template <typename T>
  Writer& Put(const T& value) {
    std::memcpy(to_.data(), &value, sizeof value);
    to_ = to_.subspan(sizeof value);
    return *this;
  }

 private:
  std::span<std::byte> to_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : from_(from) {}
  template <typename T>
  T Get() {
    T value;
    std::memcpy(&value, from_.data(), sizeof value);
    from_ = from_.subspan(sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> from_;
};

std::string StageName(uint32_t stage) {
  return stage == kDrafterStage ? "the draft worker" : fmt::format("stage {}", stage);
}

}  // namespace

std::string DebugString(const EdgeId& edge) {
  return fmt::format("{} -> {}, generation {}", StageName(edge.from_stage), StageName(edge.to_stage),
                     edge.generation);
}

std::array<std::byte, kEdgeHelloBytes> EncodeHello(const EdgeId& edge) {
  std::array<std::byte, kEdgeHelloBytes> bytes{};
  Writer(bytes)
      .Put(kHelloMagic)
      .Put(kEdgeProtocolVersion)
      .Put(edge.generation)
      .Put(edge.coordinator_nonce)
      .Put(edge.from_stage)
      .Put(edge.to_stage);
  return bytes;
}

bool MayBeHello(std::span<const std::byte> first_bytes) {
  return std::memcmp(first_bytes.data(), kHelloMagic.data(),
                     std::min(first_bytes.size(), kHelloMagic.size())) == 0;
}

StatusOr<EdgeId> DecodeHello(std::span<const std::byte, kEdgeHelloBytes> bytes) {
  Reader reader(bytes);
  if (reader.Get<std::array<char, 8>>() != kHelloMagic) {
    return InvalidArgumentError("tensor edge: the connection does not begin with our hello");
  }
  if (const auto version = reader.Get<uint32_t>(); version != kEdgeProtocolVersion) {
    return FailedPreconditionError("tensor edge: peer speaks edge protocol {}, this build speaks {}", version,
                                   kEdgeProtocolVersion);
  }
  EdgeId edge;
  edge.generation = reader.Get<uint32_t>();
  edge.coordinator_nonce = reader.Get<uint64_t>();
  edge.from_stage = reader.Get<uint32_t>();
  edge.to_stage = reader.Get<uint32_t>();
  return edge;
}

std::array<std::byte, kEdgeAnswerBytes> EncodeAnswer(const EdgeAnswer& answer) {
  std::array<std::byte, kEdgeAnswerBytes> bytes{};
  std::array<char, kReasonBytesMax> reason{};
  const size_t reason_len = std::min(answer.reason.size(), kReasonBytesMax);
  std::copy_n(answer.reason.begin(), reason_len, reason.begin());
  Writer(bytes)
      .Put(kAnswerMagic)
      .Put(kEdgeProtocolVersion)
      .Put(answer.verdict)
      .Put(answer.limits.header_bytes_max)
      .Put(static_cast<uint32_t>(reason_len))
      .Put(answer.limits.payload_bytes_max)
      .Put(answer.limits.ring_bytes)
      .Put(reason);
  return bytes;
}

StatusOr<EdgeAnswer> DecodeAnswer(std::span<const std::byte, kEdgeAnswerBytes> bytes) {
  Reader reader(bytes);
  if (reader.Get<std::array<char, 8>>() != kAnswerMagic) {
    return InvalidArgumentError("tensor edge: what listens there is no tensor listener");
  }
  if (const auto version = reader.Get<uint32_t>(); version != kEdgeProtocolVersion) {
    return FailedPreconditionError("tensor edge: the listener speaks edge protocol {}, this build speaks {}",
                                   version, kEdgeProtocolVersion);
  }
  EdgeAnswer answer;
  answer.verdict = reader.Get<EdgeVerdict>();
  answer.limits.header_bytes_max = reader.Get<uint32_t>();
  const uint32_t reason_len = reader.Get<uint32_t>();
  answer.limits.payload_bytes_max = reader.Get<uint64_t>();
  answer.limits.ring_bytes = reader.Get<uint64_t>();
  const auto reason = reader.Get<std::array<char, kReasonBytesMax>>();
  if (answer.verdict > EdgeVerdict::kNotYet || reason_len > kReasonBytesMax) {
    return InvalidArgumentError("tensor edge: the listener's answer is damaged");
  }
  answer.reason.assign(reason.data(), reason_len);
  return answer;
}

EdgeAnswer Judge(const EdgeId& expected, const EdgeId& offered, const TensorLimits& limits) {
  if (offered == expected) return {.verdict = EdgeVerdict::kAccepted, .reason = {}, .limits = limits};
  const bool same_stages = offered.from_stage == expected.from_stage && offered.to_stage == expected.to_stage;
  const bool same_coordinator = offered.coordinator_nonce == expected.coordinator_nonce;
  const std::string both = fmt::format("offered {}, wanted {}", DebugString(offered), DebugString(expected));
  if (!same_stages)
    return {.verdict = EdgeVerdict::kRefused, .reason = "other stages: " + both, .limits = limits};
  if (!same_coordinator) {
    // Nonces have no order: either side may be the one that has not heard of the new coordinator.
    return {.verdict = EdgeVerdict::kNotYet,
            .reason = "another coordinator's generation: " + both,
            .limits = limits};
  }
  if (offered.generation < expected.generation) {
    return {.verdict = EdgeVerdict::kRefused, .reason = "stale generation: " + both, .limits = limits};
  }
  return {.verdict = EdgeVerdict::kNotYet, .reason = "future generation: " + both, .limits = limits};
}

}  // namespace paceline
