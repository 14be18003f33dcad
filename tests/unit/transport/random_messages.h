// Random messages of every kind, all of which mean something: what the codec must carry unchanged.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/protocol/frame.h"
#include "common/protocol/message.h"

namespace paceline::testing {

class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : random_(seed) {}

  // `kind` is an index of the variant.
  WireMessage Make(size_t kind);
  FrameHeader MakeFrame();

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Coin() { return Below(2) == 1; }

 private:
  std::string Text();
  float Number(float low, float high);
  std::vector<TokenId> Ids(uint64_t count_max);
  Generation AnyGeneration();
  Lineage AnyLineage();
  LogSource Source();
  Hello MakeHello();
  Reconfigure MakeReconfigure();
  Admission MakeAdmission();
  SamplingParams Sampling();
  StepPlan MakePlan();
  Proposal MakeProposal();
  Verdict MakeVerdict();
  SequenceVerdict OneVerdict(SequenceId sequence);
  uint64_t Any() { return random_(); }
  uint32_t Any32() { return static_cast<uint32_t>(random_()); }
  StepId Step() { return StepId(1 + Below(1u << 30)); }

  std::mt19937_64 random_;
};

inline constexpr size_t kNumKinds = std::variant_size_v<WireMessage>;

}  // namespace paceline::testing
