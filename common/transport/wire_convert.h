// Between the plain structs of common/protocol and the FlatBuffers tables of schemas/: one pair per message.
//
// Internal to the codec. ToWire takes a struct apart by structured binding, so a field that is added to a
// struct and forgotten here does not compile. FromWire expects a verified table; it answers InvalidArgument
// where columns that belong together differ in length, the one thing that the struct can no longer show.
//
// WireReader copies texts and lists out of a buffer and stops at the buffer's own size: in hostile bytes
// thousands of tables can share one long vector, and copying it for each would turn 1 MiB into 18 GB.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/protocol/frame.h"
#include "common/protocol/message.h"
#include "schemas/envelope_generated.h"
#include "schemas/frame_generated.h"

namespace paceline {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

class WireReader {
 public:
  explicit WireReader(size_t buffer_bytes) : bytes_left_(buffer_bytes) {}

  template <typename T>
  std::vector<T> List(const flatbuffers::Vector<T>* in) {
    if (in == nullptr || !Take(in->size() * sizeof(T))) return {};
    return {in->begin(), in->end()};
  }
  // Texts end up in log lines: control bytes become '?', so that nobody writes a second line.
  std::string Text(const flatbuffers::String* in);
  // More was asked for than an honest buffer of this size holds; what was read is incomplete.
  bool overdrawn() const { return overdrawn_; }

 private:
  bool Take(size_t bytes) {
    if (bytes > bytes_left_) overdrawn_ = true;
    if (overdrawn_) return false;
    bytes_left_ -= bytes;
    return true;
  }
  size_t bytes_left_;
  bool overdrawn_ = false;
};

Offset<wire::Hello> ToWire(FlatBufferBuilder& builder, const Hello& in);
Offset<wire::Refusal> ToWire(FlatBufferBuilder& builder, const Refusal& in);
Offset<wire::Reconfigure> ToWire(FlatBufferBuilder& builder, const Reconfigure& in);
Offset<wire::ReconfigureDone> ToWire(FlatBufferBuilder& builder, const ReconfigureDone& in);
Offset<wire::Probe> ToWire(FlatBufferBuilder& builder, const Probe& in);
Offset<wire::ProbeSeen> ToWire(FlatBufferBuilder& builder, const ProbeSeen& in);
Offset<wire::DrafterChange> ToWire(FlatBufferBuilder& builder, const DrafterChange& in);
Offset<wire::Goodbye> ToWire(FlatBufferBuilder& builder, const Goodbye& in);
Offset<wire::Heartbeat> ToWire(FlatBufferBuilder& builder, const Heartbeat& in);
Offset<wire::Admission> ToWire(FlatBufferBuilder& builder, const Admission& in);
Offset<wire::Release> ToWire(FlatBufferBuilder& builder, const Release& in);
Offset<wire::Cancel> ToWire(FlatBufferBuilder& builder, const Cancel& in);
Offset<wire::StepPlan> ToWire(FlatBufferBuilder& builder, const StepPlan& in);
Offset<wire::PlanRequest> ToWire(FlatBufferBuilder& builder, const PlanRequest& in);
Offset<wire::Launched> ToWire(FlatBufferBuilder& builder, const Launched& in);
Offset<wire::Proposal> ToWire(FlatBufferBuilder& builder, const Proposal& in);
Offset<wire::Verdict> ToWire(FlatBufferBuilder& builder, const Verdict& in);
Offset<wire::ReplayRequest> ToWire(FlatBufferBuilder& builder, const ReplayRequest& in);
Offset<wire::ReplayAnswer> ToWire(FlatBufferBuilder& builder, const ReplayAnswer& in);
Offset<wire::Frame> ToWire(FlatBufferBuilder& builder, const FrameHeader& in);

StatusOr<Hello> FromWire(WireReader& reader, const wire::Hello& in);
StatusOr<Refusal> FromWire(WireReader& reader, const wire::Refusal& in);
StatusOr<Reconfigure> FromWire(WireReader& reader, const wire::Reconfigure& in);
StatusOr<ReconfigureDone> FromWire(WireReader& reader, const wire::ReconfigureDone& in);
StatusOr<Probe> FromWire(WireReader& reader, const wire::Probe& in);
StatusOr<ProbeSeen> FromWire(WireReader& reader, const wire::ProbeSeen& in);
StatusOr<DrafterChange> FromWire(WireReader& reader, const wire::DrafterChange& in);
StatusOr<Goodbye> FromWire(WireReader& reader, const wire::Goodbye& in);
StatusOr<Heartbeat> FromWire(WireReader& reader, const wire::Heartbeat& in);
StatusOr<Admission> FromWire(WireReader& reader, const wire::Admission& in);
StatusOr<Release> FromWire(WireReader& reader, const wire::Release& in);
StatusOr<Cancel> FromWire(WireReader& reader, const wire::Cancel& in);
StatusOr<StepPlan> FromWire(WireReader& reader, const wire::StepPlan& in);
StatusOr<PlanRequest> FromWire(WireReader& reader, const wire::PlanRequest& in);
StatusOr<Launched> FromWire(WireReader& reader, const wire::Launched& in);
StatusOr<Proposal> FromWire(WireReader& reader, const wire::Proposal& in);
StatusOr<Verdict> FromWire(WireReader& reader, const wire::Verdict& in);
StatusOr<ReplayRequest> FromWire(WireReader& reader, const wire::ReplayRequest& in);
StatusOr<ReplayAnswer> FromWire(WireReader& reader, const wire::ReplayAnswer& in);
StatusOr<FrameHeader> FromWire(WireReader& reader, const wire::Frame& in);

// Helpers of the files that implement the above.
namespace convert {

inline wire::Generation Wire(const Generation& in) { return {in.coordinator_nonce, in.counter}; }
inline wire::Lineage Wire(const Lineage& in) { return {in.coordinator, in.last_stage}; }

inline Generation Plain(const wire::Generation* in) {
  if (in == nullptr) return {};
  return {.coordinator_nonce = in->coordinator_nonce(), .counter = in->counter()};
}
inline Lineage Plain(const wire::Lineage* in) {
  if (in == nullptr) return {};
  return {.coordinator = in->coordinator(), .last_stage = in->last_stage()};
}

template <typename T>
size_t Count(const flatbuffers::Vector<T>* in) {
  return in == nullptr ? 0 : in->size();
}

// A column of rows: `get` takes the value out of a row.
template <typename Value, typename Row, typename Get>
Offset<flatbuffers::Vector<Value>> Column(FlatBufferBuilder& builder, const std::vector<Row>& rows, Get get) {
  if (rows.empty()) return {};  // absent and empty mean the same
  Value* values = nullptr;
  const auto offset = builder.CreateUninitializedVector(rows.size(), &values);
  for (size_t i = 0; i < rows.size(); ++i) values[i] = get(rows[i]);
  return offset;
}

template <typename T>
Offset<flatbuffers::Vector<T>> List(FlatBufferBuilder& builder, const std::vector<T>& values) {
  if (values.empty()) return {};
  return builder.CreateVector(values);
}

inline Offset<flatbuffers::String> Text(FlatBufferBuilder& builder, const std::string& text) {
  if (text.empty()) return {};
  return builder.CreateString(text);
}

// Tables of a list, each by its own function.
template <typename Table, typename Row, typename Make>
Offset<flatbuffers::Vector<Offset<Table>>> Tables(FlatBufferBuilder& builder, const std::vector<Row>& rows,
                                                  Make make) {
  if (rows.empty()) return {};
  std::vector<Offset<Table>> offsets;
  offsets.reserve(rows.size());
  for (const Row& row : rows) offsets.push_back(make(builder, row));
  return builder.CreateVector(offsets);
}

// InvalidArgument that names both columns unless they are equally long.
Status SameCount(const char* what, size_t first, size_t second);

}  // namespace convert
}  // namespace paceline
