#include "common/transport/codec.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <variant>

#include "common/base/checked_size.h"
#include "common/transport/message_check.h"
#include "common/transport/wire_convert.h"

namespace paceline {
namespace {

constexpr flatbuffers::uoffset_t kNestingMax = 16;
constexpr flatbuffers::uoffset_t kTablesMax = 20000;
// FlatBuffers reads numbers where they lie: the buffer's start must be a multiple of the largest.
constexpr size_t kBufferAlignment = 8;
// Root offset and file identifier.
constexpr size_t kBytesMin = 8;

// The union's tag for each struct of the variant.
template <typename T>
struct WireOf;
#define PACELINE_WIRE_OF(Kind)                        \
  template <>                                         \
  struct WireOf<Kind> {                               \
    using Table = wire::Kind;                         \
    static constexpr auto kTag = wire::Payload::Kind; \
  }
PACELINE_WIRE_OF(Hello);
PACELINE_WIRE_OF(Refusal);
PACELINE_WIRE_OF(Reconfigure);
PACELINE_WIRE_OF(ReconfigureDone);
PACELINE_WIRE_OF(Probe);
PACELINE_WIRE_OF(ProbeSeen);
PACELINE_WIRE_OF(DrafterChange);
PACELINE_WIRE_OF(Goodbye);
PACELINE_WIRE_OF(Heartbeat);
PACELINE_WIRE_OF(Admission);
PACELINE_WIRE_OF(Release);
PACELINE_WIRE_OF(Cancel);
PACELINE_WIRE_OF(StepPlan);
PACELINE_WIRE_OF(PlanRequest);
PACELINE_WIRE_OF(Launched);
PACELINE_WIRE_OF(Proposal);
PACELINE_WIRE_OF(Verdict);
PACELINE_WIRE_OF(ReplayRequest);
PACELINE_WIRE_OF(ReplayAnswer);
#undef PACELINE_WIRE_OF

// The bytes at an address FlatBuffers can read: sockets hand out any.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::span<const std::byte> bytes) : bytes_(bytes) {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % kBufferAlignment == 0) return;
    words_.resize((bytes.size() + kBufferAlignment - 1) / kBufferAlignment);
    std::memcpy(words_.data(), bytes.data(), bytes.size());
    bytes_ = {reinterpret_cast<const std::byte*>(words_.data()), bytes.size()};
  }
  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes_.data()); }
  size_t size() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
  std::vector<uint64_t> words_;
};

// The envelope's own fields, which no major changes: read before the payload is verified against ours.
struct EnvelopeHead : private flatbuffers::Table {
  bool Verify(flatbuffers::Verifier& verifier) const {
    return VerifyTableStart(verifier) &&
           VerifyField<uint16_t>(verifier, wire::Envelope::VT_PROTOCOL_MAJOR, sizeof(uint16_t)) &&
           VerifyField<uint16_t>(verifier, wire::Envelope::VT_PROTOCOL_MINOR, sizeof(uint16_t)) &&
           verifier.EndTable();
  }
  uint16_t protocol_major() const { return GetField<uint16_t>(wire::Envelope::VT_PROTOCOL_MAJOR, 0); }
  uint16_t protocol_minor() const { return GetField<uint16_t>(wire::Envelope::VT_PROTOCOL_MINOR, 0); }
};

flatbuffers::Verifier MakeVerifier(const AlignedBytes& bytes) {
  return flatbuffers::Verifier(bytes.data(), bytes.size(), kNestingMax, kTablesMax);
}

Status CheckLengthAndIdentifier(std::span<const std::byte> bytes, size_t bytes_max, const char* identifier) {
  if (bytes.size() > bytes_max) {
    return ResourceExhaustedError("message of {} bytes, at most {}", bytes.size(), bytes_max);
  }
  if (bytes.size() < kBytesMin) {
    return InvalidArgumentError("message of {} bytes, at least {}", bytes.size(), kBytesMin);
  }
  if (std::memcmp(bytes.data() + sizeof(uint32_t), identifier, flatbuffers::kFileIdentifierLength) != 0) {
    return InvalidArgumentError("message without the identifier {}", identifier);
  }
  return OkStatus();
}

Status CheckMajor(const AlignedBytes& bytes) {
  flatbuffers::Verifier verifier = MakeVerifier(bytes);
  if (!verifier.VerifyBuffer<EnvelopeHead>(wire::EnvelopeIdentifier())) {
    return InvalidArgumentError("message whose envelope is damaged");
  }
  const auto* head = flatbuffers::GetRoot<EnvelopeHead>(bytes.data());
  if (head->protocol_major() == kProtocolMajor) return OkStatus();
  return FailedPreconditionError(
      "peer speaks protocol {}.{}, this build speaks {}.{}: install the same version "
      "everywhere",
      head->protocol_major(), head->protocol_minor(), kProtocolMajor, kProtocolMinor);
}

template <typename Kind>
StatusOr<WireMessage> ReadPayload(WireReader& reader, const wire::Envelope& envelope) {
  const auto* table = static_cast<const typename WireOf<Kind>::Table*>(envelope.payload());
  if (table == nullptr) return InvalidArgumentError("message without a payload");
  ASSIGN_OR_RETURN(Kind message, FromWire(reader, *table));
  return WireMessage(std::move(message));
}

// Tries the variant's kinds in turn.
template <size_t index = 0>
StatusOr<WireMessage> ReadKind(WireReader& reader, const wire::Envelope& envelope) {
  if constexpr (index < std::variant_size_v<WireMessage>) {
    using Kind = std::variant_alternative_t<index, WireMessage>;
    if (envelope.payload_type() == WireOf<Kind>::kTag) return ReadPayload<Kind>(reader, envelope);
    return ReadKind<index + 1>(reader, envelope);
  } else {
    if (envelope.payload_type() == wire::Payload::NONE) {
      return InvalidArgumentError("message without a payload");
    }
    return UnimplementedError("message kind {} of protocol {}.{} is unknown to {}.{}",
                              static_cast<int>(envelope.payload_type()), envelope.protocol_major(),
                              envelope.protocol_minor(), kProtocolMajor, kProtocolMinor);
  }
}

Status CheckHonest(const WireReader& reader) {
  if (!reader.overdrawn()) return OkStatus();
  return InvalidArgumentError("message whose tables share vectors: it would unfold to more than its size");
}

// One buffer per thread grows to the largest message and stays.
FlatBufferBuilder& ThreadBuilder() {
  thread_local FlatBufferBuilder builder(4096);
  builder.Clear();
  return builder;
}

std::vector<std::byte> Finished(const FlatBufferBuilder& builder) {
  const auto* begin = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return {begin, begin + builder.GetSize()};
}

}  // namespace

std::vector<std::byte> Encode(const WireMessage& message) {
  FlatBufferBuilder& builder = ThreadBuilder();
  std::visit(
      [&](const auto& kind) {
        const auto payload = ToWire(builder, kind).Union();
        wire::FinishEnvelopeBuffer(builder,
                                   wire::CreateEnvelope(builder, kProtocolMajor, kProtocolMinor,
                                                        WireOf<std::decay_t<decltype(kind)>>::kTag, payload));
      },
      message);
  return Finished(builder);
}

StatusOr<WireMessage> Decode(std::span<const std::byte> input) {
  RETURN_IF_ERROR(CheckLengthAndIdentifier(input, kControlMessageBytesMax, wire::EnvelopeIdentifier()));
  const AlignedBytes bytes(input);
  RETURN_IF_ERROR(CheckMajor(bytes));
  flatbuffers::Verifier verifier = MakeVerifier(bytes);
  if (!wire::VerifyEnvelopeBuffer(verifier)) {
    return InvalidArgumentError("message of {} bytes is damaged, too deep or has too many tables",
                                bytes.size());
  }
  WireReader reader(bytes.size());
  ASSIGN_OR_RETURN(WireMessage message, ReadKind(reader, *wire::GetEnvelope(bytes.data())));
  RETURN_IF_ERROR(CheckHonest(reader));
  RETURN_IF_ERROR(CheckMeaning(message));
  return message;
}

std::vector<std::byte> EncodeFrame(const FrameHeader& header) {
  FlatBufferBuilder& builder = ThreadBuilder();
  wire::FinishFrameBuffer(builder, ToWire(builder, header));
  return Finished(builder);
}

StatusOr<FrameHeader> DecodeFrame(std::span<const std::byte> input, size_t bytes_max) {
  RETURN_IF_ERROR(CheckLengthAndIdentifier(input, bytes_max, wire::FrameIdentifier()));
  const AlignedBytes bytes(input);
  flatbuffers::Verifier verifier = MakeVerifier(bytes);
  if (!wire::VerifyFrameBuffer(verifier)) {
    return InvalidArgumentError("frame header of {} bytes is damaged", bytes.size());
  }
  WireReader reader(bytes.size());
  ASSIGN_OR_RETURN(FrameHeader header, FromWire(reader, *wire::GetFrame(bytes.data())));
  RETURN_IF_ERROR(CheckMeaning(header));
  return header;
}

StatusOr<uint64_t> FramePayloadBytes(const FrameHeader& header) {
  ASSIGN_OR_RETURN(const uint64_t elements, CheckedMul(header.rows.size(), header.hidden_size));
  return CheckedMul(elements, sizeof(float));
}

std::string_view KindName(const WireMessage& message) {
  return std::visit(
      [](const auto& kind) -> std::string_view {
        return wire::EnumNamePayload(WireOf<std::decay_t<decltype(kind)>>::kTag);
      },
      message);
}

}  // namespace paceline
