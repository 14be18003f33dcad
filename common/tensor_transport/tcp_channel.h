// The TCP maker: a message is a fixed prefix (magic, lengths), the header, the payload, on one connection.
//
// Internal to common/tensor_transport; promises are those of tensor_channel.h. The connection is past the
// hello. No TCP_USER_TIMEOUT: a receiver that is stopped but alive keeps the edge, each Send has its
// deadline, and membership tears the edge down when a host falls silent.
#pragma once

#include <memory>

#include "common/base/unique_fd.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {

std::unique_ptr<TensorSender> MakeTcpSender(UniqueFd connection, const TensorLimits& limits);
std::unique_ptr<TensorReceiver> MakeTcpReceiver(UniqueFd connection, const TensorLimits& limits);

}  // namespace paceline
