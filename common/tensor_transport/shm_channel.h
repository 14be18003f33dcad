// The shared-memory maker: a ring (shm_ring.h) for the bytes, two eventfds for wake-ups, and the unix socket
// of the hello, whose hang-up tells at once that the peer is gone.
//
// Internal to common/tensor_transport; promises are those of tensor_channel.h.
//
// A side that must wait raises its flag in the ring, looks once more, and sleeps on its eventfd; the other
// side writes the eventfd only when the flag is up, so a busy edge makes no system call. A wake-up can get
// lost in more ways than can be listed (a stopped process, a full counter, a bug): a sleeper looks again
// every 20 ms.
#pragma once

#include <memory>

#include "common/base/unique_fd.h"
#include "common/tensor_transport/shm_ring.h"
#include "common/tensor_transport/tensor_channel.h"

namespace paceline {

// What both ends hold; the listener makes it, the connector gets the descriptors with the answer.
struct ShmLink {
  UniqueFd socket;
  UniqueFd data_ready;   // eventfd: written by the sender
  UniqueFd space_ready;  // eventfd: written by the receiver
  std::unique_ptr<ShmRing> ring;
};

std::unique_ptr<TensorSender> MakeShmSender(ShmLink link, const TensorLimits& limits);
std::unique_ptr<TensorReceiver> MakeShmReceiver(ShmLink link, const TensorLimits& limits);

// The listener's half of set-up: makes ring and eventfds and sends them with the answer.
StatusOr<ShmLink> OfferShmLink(UniqueFd socket, const TensorLimits& limits, Instant deadline);
// The connector's: `answer` and descriptors as received.
StatusOr<ShmLink> TakeShmLink(UniqueFd socket, UniqueFd memory, UniqueFd data_ready, UniqueFd space_ready,
                              const TensorLimits& limits);

}  // namespace paceline
