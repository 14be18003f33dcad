// LogPublisher and LogSubscriber: the published logs (proposals of the draft worker, verdicts of the last
// stage).
//
// PUB is fast and silent: it drops at a full queue and knows nothing of late joiners. So the publisher keeps
// its last messages in a ring and answers re-requests by step id on a second socket; a subscriber that knows
// from the plan that it is owed a message asks again on a timer; a generation starts only when every
// subscriber has confirmed a probe.
//
//   publisher->StartGeneration(generation, incarnation, slots + launch_window);  // at Reconfigure
//   publisher->PublishProbe();                          // on a timer until the first plan
//   publisher->Publish(proposal, proposal.step);
//
//   subscriber->RequestReplay(generation, step);  // answer: the message, or ReplayAnswer kNotYet / kGone
//
// Ordering: FIFO per publisher on the PUB side with holes; an answer to a re-request may overtake or repeat
// what PUB delivers. The subscriber passes on everything; the core drops what it has already.
//
// Threading: made, used and destroyed on the loop's thread (or before Run). Callbacks run there.
//
// Limits: 1 MiB a message; the ring holds the last `ring_messages` (P17: at least slots plus launch window).
//
// Failure: the ring is emptied by StartGeneration (P16); a re-request for an older generation is answered
// "gone", for a newer one or a step not published yet "not yet". A request to a publisher that is not
// connected is Unavailable: the caller's timer asks again. Bytes that do not decode are counted and dropped.
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

  static StatusOr<std::unique_ptr<LogPublisher>> Bind(Fabric& fabric, EventLoop& loop, Options options);
  virtual ~LogPublisher() = default;

  // Empties the ring; what is published from now on belongs to this generation and incarnation.
  virtual void StartGeneration(Generation generation, Incarnation incarnation, size_t ring_messages) = 0;
  // Sends the Probe of the generation.
  virtual Status PublishProbe() = 0;
  // `message` is the Proposal or Verdict of `step`. FailedPrecondition: that step was published already;
  // InvalidArgument: over 1 MiB.
  virtual Status Publish(const WireMessage& message, StepId step) = 0;

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

  virtual Status RequestReplay(Generation generation, StepId step) = 0;
};

}  // namespace paceline
