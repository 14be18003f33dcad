// LogPublisher and LogSubscriber: the published logs (proposals of the draft worker, verdicts of the last
// stage).
//
// PUB is fast and silent: it drops at a full queue and knows nothing of late joiners. So the publisher's core
// keeps a ring of its last messages (common/protocol/log_ring.h) and answers re-requests by step id on a
// second socket; a subscriber that knows from the plan that it is owed a message asks again on a timer; a
// generation starts only when every subscriber has confirmed a probe. The sockets here only carry: what is
// published, what is answered and when to probe is decided in the cores.
//
//   publisher->Publish(proposal);                  // or a Probe
//   on_replay_request(peer, request)               // the core answers from its ring:
//   publisher->Answer(peer, message);              // the message, or ReplayAnswer kNotYet / kGone
//
//   subscriber->RequestReplay({generation, step}); // the answer comes to on_message
//
// Ordering: FIFO per publisher on the PUB side with holes; an answer to a re-request may overtake or repeat
// what PUB delivers. The subscriber passes on everything; the core drops what it has already.
//
// Threading: made, used and destroyed on the loop's thread (or before Run). Callbacks run there.
//
// Limits: 1 MiB a message; `queue_messages_max` messages a peer. Publish and Answer never block: what finds a
// full queue is dropped and asked for again.
//
// Failure: a request to a publisher that is not connected is Unavailable: the caller's timer asks again.
// Bytes that do not decode are counted and dropped.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/actor/event_loop.h"
#include "common/base/status.h"
#include "common/protocol/message.h"
#include "common/transport/fabric.h"

namespace paceline {

class LogPublisher {
 public:
  struct Options {
    std::string publish_endpoint;  // to bind: see common/transport/endpoint.h
    std::string replay_endpoint;
    int queue_messages_max = 4096;  // per subscriber; what is over is dropped and asked for again
  };
  struct Callbacks {
    // `peer` names the asker until its connection ends; it is what Answer takes.
    std::function<void(uint64_t peer, const ReplayRequest& request)> on_replay_request;
  };

  static StatusOr<std::unique_ptr<LogPublisher>> Bind(Fabric& fabric, EventLoop& loop, Options options,
                                                      Callbacks callbacks);
  virtual ~LogPublisher() = default;

  // A Proposal, a Verdict or a Probe. InvalidArgument: over 1 MiB.
  virtual Status Publish(const WireMessage& message) = 0;
  // To one asker; dropped when it is gone or its queue is full.
  virtual void Answer(uint64_t peer, const WireMessage& message) = 0;

  virtual const std::string& publish_endpoint() const = 0;  // as bound: for Hello.endpoints
  virtual const std::string& replay_endpoint() const = 0;
};

class LogSubscriber {
 public:
  struct Options {
    LogSource source;  // where the publisher listens
    int queue_messages_max = 4096;
  };
  struct Callbacks {
    // Proposal, Verdict, Probe; ReplayAnswer when the message is not there.
    std::function<void(WireMessage message)> on_message;
  };

  static StatusOr<std::unique_ptr<LogSubscriber>> Connect(Fabric& fabric, EventLoop& loop, Options options,
                                                          Callbacks callbacks);
  virtual ~LogSubscriber() = default;

  virtual Status RequestReplay(const ReplayRequest& request) = 0;
};

}  // namespace paceline
