#include "common/transport/fabric.h"

#include <zmq.h>

#include "common/base/check.h"

namespace paceline {

std::string_view Name(RejectReason reason) {
  switch (reason) {
    case RejectReason::kTooLong:
      return "too_long";
    case RejectReason::kMalformed:
      return "malformed";
    case RejectReason::kVersion:
      return "version";
    case RejectReason::kUnknownKind:
      return "unknown_kind";
    case RejectReason::kWrongKind:
      return "wrong_kind";
    case RejectReason::kIdentity:
      return "identity";
    case RejectReason::kHandshake:
      return "handshake";
    case RejectReason::kBanned:
      return "banned";
  }
  return "unknown";
}

RejectReason ReasonOf(const Status& decode_error) {
  switch (decode_error.code()) {
    case absl::StatusCode::kResourceExhausted:
      return RejectReason::kTooLong;
    case absl::StatusCode::kFailedPrecondition:
      return RejectReason::kVersion;
    case absl::StatusCode::kUnimplemented:
      return RejectReason::kUnknownKind;
    default:
      return RejectReason::kMalformed;
  }
}

StatusOr<std::unique_ptr<Fabric>> Fabric::Create() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  ::zmq_version(&major, &minor, &patch);
  if (ZMQ_MAKE_VERSION(major, minor, patch) < ZMQ_MAKE_VERSION(4, 3, 4)) {
    return FailedPreconditionError("libzmq {}.{}.{} is too old: install 4.3.4 or later", major, minor, patch);
  }
  void* context = ::zmq_ctx_new();
  if (context == nullptr) return ResourceExhaustedError("ZeroMQ context: {}", zmq_strerror(zmq_errno()));
  return std::unique_ptr<Fabric>(new Fabric(context));
}

Fabric::~Fabric() {
  // With a socket left, ZeroMQ would wait for ever.
  CHECK_EQ(num_sockets_.load(), 0) << "sockets must be destroyed before their Fabric";
  ::zmq_ctx_term(context_);
}

}  // namespace paceline
