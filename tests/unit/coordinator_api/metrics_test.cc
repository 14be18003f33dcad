// The exposition: names, labels, buckets that dashboards rely on.
#include "coordinator/api/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kLabels = "{engine=\"0\",model_name=\"m\"}";

std::string Sample(std::string_view name, std::string_view value) {
  return "vllm:" + std::string(name) + std::string(kLabels) + " " + std::string(value) + "\n";
}

MetricsOptions Options(bool vllm_names = true) {
  MetricsOptions options;
  options.model_name = "m";
  options.max_model_len = 2048;
  options.vllm_names = vllm_names;
  options.version = "1.2";
  options.build = "abc";
  options.protocol = "3.1";
  return options;
}

TEST(ServerMetrics, CountsRequestsAndTokens) {
  ServerMetrics metrics(Options());

  metrics.RequestAccepted(7, 2, 100);
  metrics.ChoiceFinished("length", 1.5, 1.0, 11);
  metrics.SetQueue(3, 4);

  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr(Sample("prompt_tokens_total", "7")));
  EXPECT_THAT(text, HasSubstr(Sample("num_requests_running", "3")));
  EXPECT_THAT(text, HasSubstr(Sample("num_requests_waiting", "4")));
  EXPECT_THAT(
      text,
      HasSubstr("vllm:request_success_total{engine=\"0\",finished_reason=\"length\",model_name=\"m\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE vllm:e2e_request_latency_seconds histogram"));
  EXPECT_THAT(text, HasSubstr(Sample("e2e_request_latency_seconds_sum", "1.5")));
  EXPECT_THAT(text, HasSubstr(Sample("request_time_per_output_token_seconds_sum", "0.1")));
}

TEST(ServerMetrics, AdvancesToTotalsOfTheEngineAndNeverBack) {
  ServerMetrics metrics(Options());

  metrics.AdvanceTo({.generation_tokens = 10,
                     .drafts = 2,
                     .draft_tokens = 6,
                     .accepted_tokens = 4,
                     .accepted_per_position = {2, 1, 1}});
  metrics.AdvanceTo({.generation_tokens = 12,
                     .drafts = 2,
                     .draft_tokens = 6,
                     .accepted_tokens = 4,
                     .accepted_per_position = {2, 1, 1, 0}});
  metrics.AdvanceTo({.generation_tokens = 11});

  const std::string text = metrics.Text();
  EXPECT_THAT(text, HasSubstr(Sample("generation_tokens_total", "12")));
  EXPECT_THAT(text, HasSubstr(Sample("spec_decode_num_drafts_total", "2")));
  EXPECT_THAT(text, HasSubstr(Sample("spec_decode_num_draft_tokens_total", "6")));
  EXPECT_THAT(text, HasSubstr(Sample("spec_decode_num_accepted_tokens_total", "4")));
  EXPECT_THAT(text, HasSubstr("per_pos_total{engine=\"0\",model_name=\"m\",position=\"0\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("per_pos_total{engine=\"0\",model_name=\"m\",position=\"3\"} 0\n"));
}

TEST(ServerMetrics, BucketsReachFromTheStatedFloorToTheStatedCeiling) {
  ServerMetrics metrics(Options());
  metrics.FirstToken(0.0005);
  metrics.TokenGap(0.0003, 4);  // four tokens that arrived together

  const std::string text = metrics.Text();
  EXPECT_THAT(
      text,
      HasSubstr("vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.001\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"2560\"} 1\n"));
  EXPECT_THAT(
      text, HasSubstr("inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.0001\"} 4\n"));
  EXPECT_THAT(text,
              HasSubstr("inter_token_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"80\"} 4\n"));
  EXPECT_THAT(text,
              HasSubstr("e2e_request_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"0.3\"}"));
  EXPECT_THAT(text,
              HasSubstr("e2e_request_latency_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"7680\"}"));
  EXPECT_THAT(text, HasSubstr("request_prompt_tokens_bucket{engine=\"0\",model_name=\"m\",le=\"2048\"}"));
}

TEST(ServerMetrics, TheAliasSetCanBeSwitchedOff) {
  ServerMetrics metrics(Options(false));
  metrics.RequestAccepted(7, 1, 1);

  EXPECT_THAT(metrics.Text(), Not(HasSubstr("vllm:")));
  EXPECT_THAT(metrics.Text(),
              HasSubstr("paceline_build_info{build=\"abc\",protocol=\"3.1\",version=\"1.2\"} 1\n"));
}

TEST(ServerMetrics, HasTheWholeAliasSetOfRequestsTokensAndSpeculationFromTheStart) {
  ServerMetrics metrics(Options());
  metrics.AdvanceTo({.accepted_per_position = {0}});
  metrics.SetCacheConfig(16, 100);
  const std::string text = metrics.Text();
  for (const char* name : {"num_requests_running",
                           "num_requests_waiting",
                           "kv_cache_usage_perc",
                           "cache_config_info",
                           "prefix_cache_queries_total",
                           "prefix_cache_hits_total",
                           "num_preemptions_total",
                           "prompt_tokens_total",
                           "generation_tokens_total",
                           "request_success_total",
                           "corrupted_requests_total",
                           "admission_rejections_total",
                           "spec_decode_num_drafts_total",
                           "spec_decode_num_draft_tokens_total",
                           "spec_decode_num_accepted_tokens_total",
                           "spec_decode_num_accepted_tokens_per_pos_total",
                           "iteration_tokens_total",
                           "request_prompt_tokens",
                           "request_generation_tokens",
                           "request_max_num_generation_tokens",
                           "request_params_n",
                           "request_params_max_tokens",
                           "time_to_first_token_seconds",
                           "inter_token_latency_seconds",
                           "request_time_per_output_token_seconds",
                           "e2e_request_latency_seconds",
                           "request_queue_time_seconds",
                           "request_prefill_time_seconds",
                           "request_decode_time_seconds",
                           "request_inference_time_seconds"}) {
    EXPECT_THAT(text, HasSubstr("# TYPE vllm:" + std::string(name) + " ")) << name;
  }
}

}  // namespace
}  // namespace paceline
