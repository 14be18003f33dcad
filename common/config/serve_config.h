// ServeConfig: the checked configuration that all programs of one server share.
//
// Made from Settings by MakeServeConfig, which refuses what cannot work before any weight is read; what
// depends on the model (layers, context) is checked by the caller once it has the header. Immutable
// afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/config/layers.h"
#include "common/config/speculative_config.h"
#include "common/tensor/dtype.h"

namespace paceline {

struct ApiConfig {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0 = any free one
  std::string uds;
  std::vector<std::string> api_keys;
  std::vector<std::string> allowed_origins, allowed_methods, allowed_headers;
  bool allow_credentials = false;
  std::string root_path;
  double sse_ping_seconds = 15;
  uint32_t stream_interval = 1;
  uint32_t max_logprobs = 20;
  bool tokens_as_ids = false;
  bool force_include_usage = false;
  bool request_id_headers = true;
  bool log_requests = false;
  bool vllm_metric_names = true;
  bool acceptance_in_answers = false;
};

struct LimitConfig {
  uint64_t request_line_bytes = 8 << 10, header_line_bytes = 8 << 10, headers_bytes = 64 << 10,
           body_bytes = 4 << 20;
  double header_seconds = 10, body_seconds = 60, idle_seconds = 75;
  uint32_t connections = 10240, json_depth = 64, messages = 4096, stop_strings = 16, n = 16,
           logit_bias = 1024;
  uint64_t template_steps = 500000, template_output_bytes = 8 << 20;
};

struct ServeConfig {
  std::string model;
  std::vector<std::string> served_model_names;  // never empty
  std::string chat_template;                    // path or text; empty = the model's
  std::string chat_template_kwargs;             // JSON text, "{}" if none
  std::string chat_template_content_format = "auto";
  std::string response_role = "assistant";
  int64_t max_model_len = 0;  // tokens; 0 = the model's own limit

  uint32_t pipeline_size = 1;
  std::string layer_partition = "auto";
  uint32_t num_nodes = 1;
  bool external_launcher = false;
  bool headless = false;
  std::string node_rank = "auto";
  std::string master_addr = "127.0.0.1";
  uint16_t master_port = 29501;
  std::string host_ip;
  bool fabric_insecure = false;
  double group_timeout_seconds = 600;
  int32_t worker_rank = -1;  // -1 = not given
  bool exit_on_coordinator_loss = false;
  std::string runtime_dir;

  double memory_share = 0.92;
  uint64_t kv_cache_bytes = 0;  // per stage, 0 = by share, at most 2 GiB
  DType kv_dtype = DType::kF16;
  uint32_t block_size = 16;
  uint32_t max_num_seqs = 0;
  uint32_t max_batched_tokens = 0;
  uint32_t num_slots = 0;  // num_virtual_engines
  uint32_t max_queued_requests = 2048;
  uint32_t threads = 0;  // 0 = the host's cores over its stages
  double draft_wait_share = 0.5;
  uint32_t run_ahead = 0;

  SpeculativeConfig speculative;
  ApiConfig api;
  LimitConfig limits;

  double shutdown_seconds = 30;
  bool log_stats = true;
  LogFormat log_format = LogFormat::kAuto;
  LogLevel log_level = LogLevel::kInfo;

  // All control and tensor traffic of the server stays on this host.
  bool single_host() const { return num_nodes == 1 && !external_launcher; }
};

// InvalidArgument names the flag, the value and what is possible; the programs exit 78 on it.
StatusOr<ServeConfig> MakeServeConfig(const ParsedSettings& parsed);

// True for 127.0.0.0/8, ::1 and localhost.
bool IsLoopback(std::string_view host);

// "--help" of a program: one line a flag with default, environment name and YAML key.
std::string FlagHelp();

// One line a set value with its origin: what start-up prints and `inspect config --effective --origin` shows.
std::string DescribeOrigins(const Settings& settings);

}  // namespace paceline
