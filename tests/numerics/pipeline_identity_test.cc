// Token identity, ids and logprobs bit for bit: stages x drafter x sampling x batch x chunk x run-ahead, all
// equal to one plain process (a prompt and then one id at a time, no cluster at all).
//
// The models are tiny and random; what is real is everything else: cores, kernels, sampler, verification,
// proposers.

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "tests/support/local_cluster.h"
#include "tests/support/local_generator.h"
#include "tests/support/local_model.h"
#include "tests/support/tiny_llama.h"

namespace paceline::testing {
namespace {

constexpr uint32_t kTokens = 24;

TinyLlamaOptions TargetOptions() {
  TinyLlamaOptions options;
  options.num_layers = 4;
  options.dtype = DType::kQ8_0;
  options.tied = true;
  options.context_len = 256;
  return options;
}

const WeightSource& Target() {
  static const std::unique_ptr<WeightSource> source = OpenTinyLlama(TargetOptions());
  return *source;
}

// Another model of the same vocabulary: its drafts are sometimes right, mostly not.
const WeightSource& OtherDraft() {
  static const std::unique_ptr<WeightSource> source = [] {
    TinyLlamaOptions options = TargetOptions();
    options.num_layers = 2;
    options.seed = 1;  // the target's first layers
    return OpenTinyLlama(options);
  }();
  return *source;
}

SamplingParams Greedy() {
  SamplingParams params;
  params.temperature = 0;
  params.max_tokens = kTokens;
  params.logprobs = 3;
  return params;
}

SamplingParams Seeded() {
  SamplingParams params = Greedy();
  params.temperature = 0.8f;
  params.top_p = 0.9f;
  params.top_k = 40;
  params.repetition_penalty = 1.1f;
  params.presence_penalty = 0.3f;
  params.frequency_penalty = 0.2f;
  params.logit_bias = {{7, 1.5f}, {11, -100.0f}};
  params.min_tokens = 4;
  params.stop_token_ids = {5, 9};
  params.eos_token_ids = {2};
  params.seed = 42;
  return params;
}

// Prompts that repeat, so that prompt lookup finds something; of different lengths, some longer than a chunk.
std::vector<LocalRequest> Requests(size_t count, const SamplingParams& params) {
  std::vector<LocalRequest> requests(count);
  for (size_t r = 0; r < count; ++r) {
    for (uint32_t i = 0; i < 9 + 7 * r; ++i)
      requests[r].prompt.push_back(static_cast<TokenId>(20 + (i * (r + 3)) % 13));
    requests[r].sampling = params;
    requests[r].sampling.seed = params.seed + r;
  }
  return requests;
}

Generated PlainAnswer(const LocalRequest& request) {
  static const std::unique_ptr<LocalGenerator> generator = [] {
    auto made = LocalGenerator::Make(OpenTinyLlama(TargetOptions()), {});
    CHECK_OK(made.status()) << "generator";
    return *std::move(made);
  }();
  auto generated = generator->Generate(request.prompt, request.sampling);
  CHECK_OK(generated.status()) << "generate";
  return *std::move(generated);
}

struct DraftCase {
  const char* name;
  LocalDrafter drafter;
  const WeightSource* (*source)();
  DraftSampling sampling;
};

const WeightSource* NoSource() { return nullptr; }
const WeightSource* TargetSource() { return &Target(); }
const WeightSource* OtherSource() { return &OtherDraft(); }

constexpr DraftCase kDrafts[] = {
    {"none", LocalDrafter::kNone, NoSource, DraftSampling::kGreedy},
    {"ngram", LocalDrafter::kNgram, NoSource, DraftSampling::kGreedy},
    {"draft_model greedy", LocalDrafter::kModel, OtherSource, DraftSampling::kGreedy},
    {"draft_model probabilistic", LocalDrafter::kModel, OtherSource, DraftSampling::kProbabilistic},
};

class PipelineIdentity : public ::testing::TestWithParam<uint32_t> {};

void ExpectPlain(const std::vector<LocalRequest>& requests, const std::vector<LocalAnswer>& answers) {
  ASSERT_EQ(answers.size(), requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    const Generated plain = PlainAnswer(requests[r]);
    EXPECT_EQ(answers[r].error, "");
    EXPECT_EQ(answers[r].ids, plain.ids) << "request " << r;
    EXPECT_TRUE(answers[r].logprobs == plain.logprobs) << "request " << r;
  }
}

TEST_P(PipelineIdentity, HoldsForEveryDrafterSamplingBatchAndChunk) {
  for (const DraftCase& draft : kDrafts) {
    uint32_t num_drafted = 0, num_accepted = 0;
    for (const uint32_t chunk : {5u, 64u}) {
      for (const SamplingParams& params : {Greedy(), Seeded()}) {
        for (const size_t batch : {1, 9}) {
          SCOPED_TRACE(fmt::format("drafter {}, chunk {}, temperature {}, batch {}", draft.name, chunk,
                                   params.temperature, batch));
          LocalClusterOptions options;
          options.num_stages = GetParam();
          options.drafter = draft.drafter;
          options.draft_source = draft.source();
          options.draft_sampling = draft.sampling;
          options.max_num_batched_tokens = chunk;
          LocalCluster cluster(Target(), options);

          const std::vector<LocalRequest> requests = Requests(batch, params);
          const std::vector<LocalAnswer> answers = cluster.Generate(requests);
          ExpectPlain(requests, answers);
          for (const LocalAnswer& answer : answers) {
            num_drafted += answer.num_drafted;
            num_accepted += answer.num_accepted;
          }
        }
      }
    }
    // Equality is worth something only where drafts were both right and wrong.
    if (draft.drafter == LocalDrafter::kNone) continue;
    EXPECT_GT(num_accepted, 0u) << draft.name;
    EXPECT_LT(num_accepted, num_drafted) << draft.name;
  }
}

TEST_P(PipelineIdentity, HoldsWithFramesInFlightAndAnyDraftLength) {
  for (const uint32_t draft_len : {1u, 3u, 8u}) {
    for (const uint32_t in_flight : {2u, 4u}) {
      for (const DraftCase& draft : {kDrafts[1], kDrafts[2]}) {
        SCOPED_TRACE(
            fmt::format("drafter {}, draft length {}, in flight {}", draft.name, draft_len, in_flight));
        LocalClusterOptions options;
        options.num_stages = GetParam();
        options.num_slots = 4;
        options.drafter = draft.drafter;
        options.draft_source = draft.source();
        options.num_speculative_tokens = draft_len;
        options.frames_in_flight_max = in_flight;
        LocalCluster cluster(Target(), options);

        const std::vector<LocalRequest> requests = Requests(3, Seeded());
        ExpectPlain(requests, cluster.Generate(requests));
      }
    }
  }
}

// B004, and "acceptance is real": a draft equal to the target is always right, greedily, and by the shared
// noise too.
TEST_P(PipelineIdentity, ADraftEqualToTheTargetIsAcceptedWhole) {
  for (const SamplingParams& params : {Greedy(), Seeded()}) {
    LocalClusterOptions options;
    options.num_stages = GetParam();
    options.drafter = LocalDrafter::kModel;
    options.draft_source = TargetSource();
    options.draft_sampling = params.greedy() ? DraftSampling::kGreedy : DraftSampling::kProbabilistic;
    LocalCluster cluster(Target(), options);

    std::vector<LocalRequest> requests = Requests(3, params);
    for (LocalRequest& request : requests) {
      request.sampling.stop_token_ids.clear();
      request.sampling.eos_token_ids.clear();
      request.sampling.repetition_penalty = params.greedy() ? 1.0f : params.repetition_penalty;
    }
    for (const LocalAnswer& answer : cluster.Generate(requests)) {
      EXPECT_GT(answer.num_drafted, 0u);
      EXPECT_EQ(answer.num_accepted, answer.num_drafted);
      EXPECT_LE(answer.num_steps, 1 + (kTokens + 4) / 5);
    }
  }
}

// B050: requests that come and go reuse slots and blocks.
TEST_P(PipelineIdentity, B050_LaterRequestsOfOneClusterEqualSingleRuns) {
  LocalClusterOptions options;
  options.num_stages = GetParam();
  options.drafter = LocalDrafter::kNgram;
  options.kv_blocks = 40;  // too few for all at once: admission waits for blocks
  LocalCluster cluster(Target(), options);

  for (int round = 0; round < 3; ++round) {
    const std::vector<LocalRequest> requests = Requests(6, Seeded());
    ExpectPlain(requests, cluster.Generate(requests));
  }
}

TEST_P(PipelineIdentity, ThreadsDoNotShow) {
  LocalClusterOptions options;
  options.num_stages = GetParam();
  options.drafter = LocalDrafter::kNgram;
  options.threads = 3;
  LocalCluster cluster(Target(), options);

  const std::vector<LocalRequest> requests = Requests(4, Seeded());
  ExpectPlain(requests, cluster.Generate(requests));
}

INSTANTIATE_TEST_SUITE_P(Stages, PipelineIdentity, ::testing::Values(1u, 2u, 3u, 4u),
                         [](const auto& stages) { return fmt::format("pp{}", stages.param); });

}  // namespace
}  // namespace paceline::testing
