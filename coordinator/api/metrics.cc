#include "coordinator/api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <vector>

namespace paceline {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

constexpr size_t kDraftPositionsMax = 128;  // the largest num_speculative_tokens

// vLLM's bounds, so that its dashboards and alerts read ours; the token times go below its 10 ms floor.
const Buckets kFirstTokenSeconds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
const Buckets kTokenSeconds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                               0.075,  0.1,     0.15,   0.2,   0.3,    0.4,   0.5,  0.75,  1.0,
                               2.5,    5.0,     7.5,    10.0,  20.0,   40.0,  80.0};
const Buckets kRequestSeconds = {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
                                 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
const Buckets kIterationTokens = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const Buckets kChoiceCount = {1, 2, 5, 10, 20};

// 1, 2, 5, 10, ... up to `largest`, which closes the row.
Buckets TokenBuckets(uint32_t largest) {
  Buckets out;
  for (double decade = 1; decade < largest; decade *= 10) {
    for (double step : {1.0, 2.0, 5.0}) {
      if (decade * step < largest) out.push_back(decade * step);
    }
  }
  out.push_back(std::max(largest, 1u));
  return out;
}

// Makes metrics of one prefix that share their base labels.
class Maker {
 public:
  Maker(prometheus::Registry* registry, std::string prefix, Labels labels)
      : registry_(registry), prefix_(std::move(prefix)), labels_(std::move(labels)) {}

  Counter* MakeCounter(const std::string& name, const std::string& help, const Labels& labels = {}) {
    return &prometheus::BuildCounter().Name(prefix_ + name).Help(help).Register(*registry_).Add(With(labels));
  }
  Gauge* MakeGauge(const std::string& name, const std::string& help, const Labels& labels = {}) {
    return &prometheus::BuildGauge().Name(prefix_ + name).Help(help).Register(*registry_).Add(With(labels));
  }
  Histogram* MakeHistogram(const std::string& name, const std::string& help, const Buckets& buckets) {
    return &prometheus::BuildHistogram()
                .Name(prefix_ + name)
                .Help(help)
                .Register(*registry_)
                .Add(With({}), buckets);
  }

 private:
  Labels With(const Labels& labels) const {
    Labels out = labels_;
    out.insert(labels.begin(), labels.end());
    return out;
  }

  prometheus::Registry* registry_;
  std::string prefix_;
  Labels labels_;
};

constexpr std::array<std::string_view, 4> kFinishReasons = {"stop", "length", "abort", "error"};
constexpr std::array<std::string_view, 4> kRejections = {"queue_full", "draining", "loading", "unavailable"};
constexpr std::array<std::string_view, 4> kPhases = {"queue", "prefill", "decode", "recovery"};

// One counter per value of a closed list, so that a label can never come from outside.
std::array<Counter*, 4> MakeByLabel(Maker& maker, const std::string& name, const std::string& help,
                                    const std::string& label, const std::array<std::string_view, 4>& values) {
  std::array<Counter*, 4> out{};
  for (size_t i = 0; i < values.size(); ++i) {
    out[i] = maker.MakeCounter(name, help, {{label, std::string(values[i])}});
  }
  return out;
}

size_t IndexOf(const std::array<std::string_view, 4>& values, std::string_view value) {
  const size_t i = static_cast<size_t>(std::ranges::find(values, value) - values.begin());
  return std::min(i, values.size() - 1);
}

}  // namespace

struct ServerMetrics::Impl {
  explicit Impl(const MetricsOptions& options);
  void MakeRequestMetrics(Maker& maker, uint32_t max_model_len);
  Counter* AcceptedAt(size_t position);

  prometheus::Registry registry;  // what Text shows
  prometheus::Registry hidden;    // the alias set, when it is switched off
  Maker alias, own;

  Gauge *running, *waiting, *kv_usage;
  Counter *prefix_queries, *prefix_hits, *preemptions, *prompt_tokens, *generation_tokens, *corrupted;
  Counter *drafts, *draft_tokens, *accepted_tokens;
  Histogram *iteration_tokens, *request_prompt_tokens, *request_generation_tokens, *request_max_generation;
  Histogram *params_n, *params_max_tokens, *first_token, *token_gap, *time_per_token, *e2e;
  Histogram *queue_time, *prefill_time, *decode_time, *inference_time;
  std::array<Counter*, 4> finished, rejected, cancelled;

  std::mutex totals_mutex;  // guards the rest
  EngineTotals totals;      // as of the last AdvanceTo
  std::vector<Counter*> accepted_at;
};

ServerMetrics::Impl::Impl(const MetricsOptions& options)
    : alias(options.vllm_names ? &registry : &hidden,
            "vllm:", {{"model_name", options.model_name}, {"engine", options.engine}}),
      own(&registry, "paceline_", {}) {
  running = alias.MakeGauge("num_requests_running", "Sequences that are being computed.");
  waiting = alias.MakeGauge("num_requests_waiting", "Sequences that wait for a place.");
  kv_usage = alias.MakeGauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.");
  prefix_queries =
      alias.MakeCounter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.");
  prefix_hits = alias.MakeCounter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.");
  preemptions =
      alias.MakeCounter("num_preemptions_total", "Sequences sent back to waiting for want of KV blocks.");
  prompt_tokens = alias.MakeCounter("prompt_tokens_total", "Prompt tokens of accepted requests.");
  generation_tokens = alias.MakeCounter("generation_tokens_total", "Tokens committed.");
  corrupted = alias.MakeCounter("corrupted_requests_total", "Requests ended by logits that are not finite.");
  drafts =
      alias.MakeCounter("spec_decode_num_drafts_total", "Verified drafts: one per sequence and verdict.");
  draft_tokens = alias.MakeCounter("spec_decode_num_draft_tokens_total", "Draft tokens verified.");
  accepted_tokens = alias.MakeCounter("spec_decode_num_accepted_tokens_total", "Draft tokens accepted.");
  finished = MakeByLabel(alias, "request_success_total", "Choices ended.", "finished_reason", kFinishReasons);
  rejected = MakeByLabel(alias, "admission_rejections_total", "Requests refused for the server's sake.",
                         "reason", kRejections);
  MakeRequestMetrics(alias, options.max_model_len);
  cancelled = MakeByLabel(own, "requests_cancelled_total", "Requests whose client left.", "phase", kPhases);
  own.MakeGauge("build_info", "Always 1; the labels say what runs.",
                {{"version", options.version}, {"build", options.build}, {"protocol", options.protocol}})
      ->Set(1);
}

void ServerMetrics::Impl::MakeRequestMetrics(Maker& maker, uint32_t max_model_len) {
  const Buckets tokens = TokenBuckets(max_model_len);
  iteration_tokens = maker.MakeHistogram("iteration_tokens_total", "Rows of one step.", kIterationTokens);
  request_prompt_tokens = maker.MakeHistogram("request_prompt_tokens", "Prompt tokens of a choice.", tokens);
  request_generation_tokens =
      maker.MakeHistogram("request_generation_tokens", "Tokens that a choice emitted.", tokens);
  request_max_generation = maker.MakeHistogram(
      "request_max_num_generation_tokens", "Tokens that the longest choice of a request may emit.", tokens);
  params_n = maker.MakeHistogram("request_params_n", "Parameter n.", kChoiceCount);
  params_max_tokens =
      maker.MakeHistogram("request_params_max_tokens", "Parameter max_tokens, after the context.", tokens);
  first_token =
      maker.MakeHistogram("time_to_first_token_seconds", "Arrival to first token.", kFirstTokenSeconds);
  token_gap =
      maker.MakeHistogram("inter_token_latency_seconds", "Time between tokens of a choice.", kTokenSeconds);
  time_per_token = maker.MakeHistogram("request_time_per_output_token_seconds",
                                       "A choice's mean time per token after the first.", kTokenSeconds);
  e2e = maker.MakeHistogram("e2e_request_latency_seconds", "Arrival to end of a choice.", kRequestSeconds);
  queue_time = maker.MakeHistogram("request_queue_time_seconds", "Waiting for a place.", kRequestSeconds);
  prefill_time =
      maker.MakeHistogram("request_prefill_time_seconds", "Place to first token.", kRequestSeconds);
  decode_time = maker.MakeHistogram("request_decode_time_seconds", "First to last token.", kRequestSeconds);
  inference_time =
      maker.MakeHistogram("request_inference_time_seconds", "Place to last token.", kRequestSeconds);
}

// Positions appear as drafts reach them, so that a server with short drafts shows a short list.
Counter* ServerMetrics::Impl::AcceptedAt(size_t position) {
  while (accepted_at.size() <= position) {
    accepted_at.push_back(alias.MakeCounter("spec_decode_num_accepted_tokens_per_pos_total",
                                            "Accepted draft tokens by position in the draft, from 0.",
                                            {{"position", std::to_string(accepted_at.size())}}));
  }
  return accepted_at[position];
}

ServerMetrics::ServerMetrics(const MetricsOptions& options) : impl_(std::make_unique<Impl>(options)) {}
ServerMetrics::~ServerMetrics() = default;

void ServerMetrics::RequestAccepted(uint32_t num_prompt_tokens, uint32_t n, uint32_t max_tokens) {
  impl_->prompt_tokens->Increment(num_prompt_tokens);
  impl_->request_prompt_tokens->Observe(num_prompt_tokens);
  impl_->params_n->Observe(n);
  impl_->params_max_tokens->Observe(max_tokens);
  impl_->request_max_generation->Observe(max_tokens);
}

void ServerMetrics::FirstToken(double seconds) { impl_->first_token->Observe(seconds); }

void ServerMetrics::TokenGap(double seconds, uint32_t num_tokens) {
  // Tokens that arrive together share the wait.
  for (uint32_t i = 0; i < num_tokens; ++i) impl_->token_gap->Observe(seconds / num_tokens);
}

void ServerMetrics::ChoiceFinished(std::string_view reason, double e2e_seconds, double decode_seconds,
                                   uint32_t num_generation_tokens) {
  impl_->finished[IndexOf(kFinishReasons, reason)]->Increment();
  impl_->e2e->Observe(e2e_seconds);
  impl_->request_generation_tokens->Observe(num_generation_tokens);
  if (num_generation_tokens > 1) impl_->time_per_token->Observe(decode_seconds / (num_generation_tokens - 1));
}

void ServerMetrics::Rejected(std::string_view reason) {
  impl_->rejected[IndexOf(kRejections, reason)]->Increment();
}

void ServerMetrics::SetQueue(uint32_t num_running, uint32_t num_waiting) {
  impl_->running->Set(num_running);
  impl_->waiting->Set(num_waiting);
}

void ServerMetrics::SetKvUsage(double used_share) { impl_->kv_usage->Set(used_share); }

void ServerMetrics::SetCacheConfig(uint32_t block_size, uint64_t num_blocks) {
  impl_->alias
      .MakeGauge("cache_config_info", "Always 1; the labels say how the KV pool is cut.",
                 {{"block_size", std::to_string(block_size)}, {"num_gpu_blocks", std::to_string(num_blocks)}})
      ->Set(1);
}

void ServerMetrics::PrefixCache(uint64_t num_queried_tokens, uint64_t num_hit_tokens) {
  impl_->prefix_queries->Increment(static_cast<double>(num_queried_tokens));
  impl_->prefix_hits->Increment(static_cast<double>(num_hit_tokens));
}

void ServerMetrics::Iteration(uint32_t num_tokens) { impl_->iteration_tokens->Observe(num_tokens); }

void ServerMetrics::AdvanceTo(const EngineTotals& totals) {
  std::lock_guard lock(impl_->totals_mutex);
  EngineTotals& last = impl_->totals;
  const auto advance = [](Counter* counter, uint64_t to, uint64_t* from) {
    if (to <= *from) return;
    counter->Increment(static_cast<double>(to - *from));
    *from = to;
  };
  advance(impl_->preemptions, totals.preemptions, &last.preemptions);
  advance(impl_->generation_tokens, totals.generation_tokens, &last.generation_tokens);
  advance(impl_->corrupted, totals.corrupted, &last.corrupted);
  advance(impl_->drafts, totals.drafts, &last.drafts);
  advance(impl_->draft_tokens, totals.draft_tokens, &last.draft_tokens);
  advance(impl_->accepted_tokens, totals.accepted_tokens, &last.accepted_tokens);
  const size_t positions = std::min(totals.accepted_per_position.size(), kDraftPositionsMax);
  if (last.accepted_per_position.size() < positions) last.accepted_per_position.resize(positions);
  for (size_t i = 0; i < positions; ++i) {
    advance(impl_->AcceptedAt(i), totals.accepted_per_position[i], &last.accepted_per_position[i]);
  }
}

void ServerMetrics::RequestTimes(double queue_seconds, double prefill_seconds, double decode_seconds,
                                 double inference_seconds) {
  impl_->queue_time->Observe(queue_seconds);
  impl_->prefill_time->Observe(prefill_seconds);
  impl_->decode_time->Observe(decode_seconds);
  impl_->inference_time->Observe(inference_seconds);
}

void ServerMetrics::Cancelled(CancelPhase phase) {
  impl_->cancelled[static_cast<size_t>(phase)]->Increment();
}

std::string ServerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace paceline
