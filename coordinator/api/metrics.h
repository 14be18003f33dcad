// ServerMetrics: the counters of the coordinator under the names that dashboards for vLLM know.
//
// Owner: the coordinator's shell; the front and the engine share it. Threading: any thread, any method (the
// counters are atomic). Limits: labels never carry client text; `position` counts up to 128.
// Durations are seconds of one process's monotonic clock.
//
//   ServerMetrics metrics({.model_name = "smol", .max_model_len = 2048});
//   metrics.AdvanceTo({.generation_tokens = 812});
//   metrics.Text();   // the exposition
//
// The front records: arrival, first token, token gaps, end, usage, parameters, rejections.
// The engine records: everything below "Engine side".
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace paceline {

struct MetricsOptions {
  std::string model_name;
  std::string engine = "0";
  uint32_t max_model_len = 0;  // the largest bucket of the token histograms
  bool vllm_names = true;      // --enable-vllm-metric-names
  std::string version, build, protocol;
};

// What the engine has counted since it started. Each value only grows.
struct EngineTotals {
  uint64_t preemptions = 0;
  uint64_t generation_tokens = 0;
  uint64_t corrupted = 0;  // requests ended by logits that are not finite
  uint64_t drafts = 0;     // one per sequence and verdict with drafted rows
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;
  std::vector<uint64_t> accepted_per_position = {};  // from 0
};

enum class CancelPhase { kQueue, kPrefill, kDecode, kRecovery };

class ServerMetrics {
 public:
  explicit ServerMetrics(const MetricsOptions& options);
  ~ServerMetrics();
  ServerMetrics(const ServerMetrics&) = delete;
  ServerMetrics& operator=(const ServerMetrics&) = delete;

  // Front side.
  void RequestAccepted(uint32_t num_prompt_tokens, uint32_t n, uint32_t max_tokens);
  void FirstToken(double seconds);                     // since the request arrived
  void TokenGap(double seconds, uint32_t num_tokens);  // since the last tokens of the choice
  // A choice ended. `reason`: stop, length, abort, error. Seconds since arrival; tokens it emitted.
  void ChoiceFinished(std::string_view reason, double e2e_seconds, double decode_seconds,
                      uint32_t num_generation_tokens);
  void Rejected(std::string_view reason);  // queue_full, draining, loading, unavailable

  // Engine side.
  void SetQueue(uint32_t num_running, uint32_t num_waiting);
  void SetKvUsage(double used_share);  // 0..1
  void SetCacheConfig(uint32_t block_size, uint64_t num_blocks);
  void PrefixCache(uint64_t num_queried_tokens, uint64_t num_hit_tokens);
  void Iteration(uint32_t num_tokens);         // rows of one step
  void AdvanceTo(const EngineTotals& totals);  // as often as wanted
  void RequestTimes(double queue_seconds, double prefill_seconds, double decode_seconds,
                    double inference_seconds);
  void Cancelled(CancelPhase phase);

  std::string Text() const;  // Prometheus text format 0.0.4

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
