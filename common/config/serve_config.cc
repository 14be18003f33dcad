#include "common/config/serve_config.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>

#include "common/config/flags.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

// Reads flags with their range; the first error is kept, so that a reader's code is a list of lines.
class Reader {
 public:
  explicit Reader(const Settings& settings) : settings_(settings) {}

  int64_t Int(std::string_view name, int64_t fallback, int64_t low, int64_t high) {
    const int64_t value = settings_.GetInt(name, fallback);
    if (settings_.Find(name) != nullptr && (value < low || value > high)) {
      Fail(name, fmt::format("want {}..{}, found {}", low, high, value));
    }
    return value;
  }
  uint32_t Count(std::string_view name, int64_t fallback, int64_t low, int64_t high = 1 << 30) {
    return static_cast<uint32_t>(Int(name, fallback, low, high));
  }
  double Number(std::string_view name, double fallback, double low, double high) {
    const double value = settings_.GetDouble(name, fallback);
    if (!(value >= low && value <= high)) Fail(name, fmt::format("want {}..{}, found {}", low, high, value));
    return value;
  }
  std::string OneOf(std::string_view name, std::string_view fallback,
                    std::initializer_list<std::string_view> values) {
    std::string value = settings_.GetString(name, fallback);
    if (std::find(values.begin(), values.end(), value) == values.end()) {
      Fail(name, fmt::format("want one of {}, found '{}'", Join(values), value));
    }
    return value;
  }
  void Fail(std::string_view name, const std::string& message) {
    if (!status_.ok()) return;
    const Setting* setting = settings_.Find(name);
    status_ = InvalidArgumentError("--{}: {} ({})", name, message,
                                   setting != nullptr ? setting->origin : "default");
  }
  void FailIf(const Status& status) {
    if (status_.ok() && !status.ok()) status_ = status;
  }
  const Status& status() const { return status_; }

 private:
  static std::string Join(std::initializer_list<std::string_view> values) {
    std::string out;
    for (const auto value : values) out += (out.empty() ? "" : ", ") + std::string(value);
    return out;
  }

  const Settings& settings_;
  Status status_;
};

void ReadModel(const ParsedSettings& parsed, Reader& read, ServeConfig& out) {
  const Settings& s = parsed.settings;
  out.model = s.GetString("model", "");
  if (parsed.positional.size() > 1) {
    read.FailIf(InvalidArgumentError("want one MODEL, found '{}' and '{}'", parsed.positional[0],
                                     parsed.positional[1]));
  }
  if (!parsed.positional.empty()) {
    if (!out.model.empty() && out.model != parsed.positional[0]) {
      read.Fail("model", fmt::format("'{}' differs from the argument '{}'", out.model, parsed.positional[0]));
    }
    out.model = parsed.positional[0];
  }
  if (out.model.empty())
    read.FailIf(InvalidArgumentError("want MODEL: a folder, a .gguf file or a cached hub id"));
  out.served_model_names = s.GetList("served-model-name");
  if (out.served_model_names.empty()) out.served_model_names = {out.model};
  read.OneOf("dtype", "auto", {"auto", "half", "float16", "bfloat16", "float", "float32"});
  const std::string dtype = s.GetString("dtype", "auto");
  if (dtype != "auto" && dtype != "float" && dtype != "float32") {
    read.Fail("dtype",
              fmt::format("the CPU backend computes in float32; want auto or float32, found '{}'", dtype));
  }
  out.max_model_len = read.Int("max-model-len", 0, -1, 1 << 30);
  if (out.max_model_len == -1) out.max_model_len = 0;
  out.chat_template = s.GetString("chat-template", "");
  const Setting* kwargs = s.Find("default-chat-template-kwargs");
  out.chat_template_kwargs = kwargs != nullptr ? kwargs->value.dump() : "{}";
  out.chat_template_content_format =
      read.OneOf("chat-template-content-format", "auto", {"auto", "string", "openai"});
  out.response_role = s.GetString("response-role", "assistant");
}

void ReadShape(const Settings& s, Reader& read, ServeConfig& out) {
  if (read.Int("tensor-parallel-size", 1, 1, 1024) != 1) {
    read.Fail("tensor-parallel-size", "this build runs one rank a stage; want 1");
  }
  if (read.Int("data-parallel-size", 1, 1, 1024) != 1) read.Fail("data-parallel-size", "want 1");
  out.pipeline_size = read.Count("pipeline-parallel-size", 1, 1, 1024);
  out.layer_partition = s.GetString("pipeline-layer-partition", "auto");
  const std::string backend = s.GetString("distributed-executor-backend", "mp");
  if (backend == "ray" || backend == "uni")
    read.Fail("distributed-executor-backend",
              fmt::format("'{}' is not how Paceline starts workers: use mp or external_launcher", backend));
  else
    read.OneOf("distributed-executor-backend", "mp", {"mp", "external_launcher"});
  out.external_launcher = backend == "external_launcher";
  out.num_nodes = read.Count("nnodes", 1, 1, 1024);
  if (out.num_nodes > 0 && out.pipeline_size % out.num_nodes != 0) {
    read.Fail("nnodes",
              fmt::format("{} stages do not split over {} nodes", out.pipeline_size, out.num_nodes));
  }
  out.headless = s.GetBool("headless", false);
  out.node_rank = s.GetString("node-rank", "auto");
  out.worker_rank = static_cast<int32_t>(read.Int("worker-rank", -1, 0, 1 << 20));
  if (out.worker_rank >= static_cast<int32_t>(out.pipeline_size)) {
    read.Fail("worker-rank", fmt::format("want 0..{}, found {}", out.pipeline_size - 1, out.worker_rank));
  }
}

void ReadFabric(const Settings& s, Reader& read, ServeConfig& out) {
  out.master_addr = s.GetString("master-addr", "127.0.0.1");
  out.master_port = static_cast<uint16_t>(read.Int("master-port", 29501, 1, 65534));
  out.host_ip = s.GetString("host-ip", "");
  out.fabric_insecure = s.GetBool("fabric-insecure", false);
  out.runtime_dir = s.GetString("runtime-dir", "");
  out.group_timeout_seconds = read.Number("distributed-timeout-seconds", 600, 1, 86400);
  out.exit_on_coordinator_loss = read.OneOf("on-coordinator-loss", "wait", {"exit", "wait"}) == "exit";
  if (out.num_nodes > 1 && IsLoopback(out.master_addr)) {
    read.Fail("master-addr", fmt::format("{} is this host only; want an address that {} nodes reach",
                                         out.master_addr, out.num_nodes));
  }
  if (out.num_nodes > 1 && !out.host_ip.empty() && IsLoopback(out.host_ip)) {
    read.Fail("host-ip", fmt::format("{} cannot be told to peers on other hosts", out.host_ip));
  }
  if (!IsLoopback(out.master_addr) && !out.fabric_insecure) {
    read.Fail("master-addr",
              fmt::format("{} is not a loopback address: keys for it are not in this build; on a private "
                          "network say --fabric-insecure",
                          out.master_addr));
  }
}

void ReadMemory(const Settings& s, Reader& read, ServeConfig& out) {
  out.memory_share = read.Number("gpu-memory-utilization", 0.92, 0.01, 1.0);
  out.kv_cache_bytes = static_cast<uint64_t>(read.Int("kv-cache-memory-bytes", 0, 1 << 16, int64_t{1} << 50));
  const std::string kv =
      read.OneOf("kv-cache-dtype", "auto", {"auto", "float16", "half", "float32", "float"});
  out.kv_dtype = kv == "float32" || kv == "float" ? DType::kF32 : DType::kF16;
  out.block_size = read.Count("block-size", 16, 1, 256);
  if (out.block_size != 8 && out.block_size != 16 && out.block_size != 32 && out.block_size != 64) {
    read.Fail("block-size", fmt::format("want 8, 16, 32 or 64, found {}", out.block_size));
  }
  out.max_num_seqs = read.Count("max-num-seqs", 128 * out.pipeline_size, 1);
  out.max_batched_tokens = read.Count("max-num-batched-tokens", 2048 * out.pipeline_size, 1, 1 << 20);
  out.num_slots = read.Count("num-virtual-engines", out.pipeline_size, 1, 1024);
  out.max_queued_requests = read.Count("max-queued-requests", 2048, 0);
  out.threads = read.Count("threads", 0, 1, 1024);
  out.draft_wait_share = read.Number("draft-wait-share", 0.5, 0, 100);
  out.run_ahead = read.Count("run-ahead", 0, 0, 64);
  read.OneOf("scheduling-policy", "fcfs", {"fcfs"});
  if (!s.GetBool("enable-chunked-prefill", true))
    read.Fail("enable-chunked-prefill", "prompts always go in chunks");
}

StatusOr<std::vector<std::string>> ReadKeys(const Settings& s) {
  std::vector<std::string> keys = s.GetList("api-key");
  const std::string path = s.GetString("api-key-file", "");
  if (path.empty()) return keys;
  std::ifstream in(path);
  if (!in.good()) return NotFoundError("--api-key-file: cannot read '{}'", path);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) keys.push_back(line);
  }
  return keys;
}

void ReadApi(const Settings& s, Reader& read, ServeConfig& out) {
  ApiConfig& api = out.api;
  api.host = s.GetString("host", "127.0.0.1");
  api.port = static_cast<uint16_t>(read.Int("port", 8000, 0, 65535));
  api.uds = s.GetString("uds", "");
  StatusOr<std::vector<std::string>> keys = ReadKeys(s);
  read.FailIf(keys.status());
  if (keys.ok()) api.api_keys = *std::move(keys);
  if (api.uds.empty() && !IsLoopback(api.host) && api.api_keys.empty()) {
    read.Fail("host",
              fmt::format("'{}' is reachable from outside: set --api-key or --api-key-file", api.host));
  }
  api.allowed_origins = s.GetList("allowed-origins");
  api.allowed_methods = s.GetList("allowed-methods");
  api.allowed_headers = s.GetList("allowed-headers");
  api.allow_credentials = s.GetBool("allow-credentials", false);
  api.root_path = s.GetString("root-path", "");
  api.sse_ping_seconds = read.Number("sse-ping-interval", 15, 0, 3600);
  api.stream_interval = read.Count("stream-interval", 1, 1);
  api.max_logprobs = read.Count("max-logprobs", 20, 0, 20);
  api.tokens_as_ids = s.GetBool("return-tokens-as-token-ids", false);
  api.force_include_usage = s.GetBool("enable-force-include-usage", false);
  api.request_id_headers = s.GetBool("enable-request-id-headers", true);
  api.log_requests = s.GetBool("enable-log-requests", false);
  api.vllm_metric_names = s.GetBool("enable-vllm-metric-names", true);
  api.acceptance_in_answers =
      read.OneOf("per-request-spec-decode-metrics", "none", {"none", "summary"}) == "summary";
}

void ReadLimits(Reader& read, LimitConfig& limits) {
  limits.request_line_bytes = read.Count("limit-request-line", 8 << 10, 256);
  limits.header_line_bytes = read.Count("limit-header-line", 8 << 10, 256);
  limits.headers_bytes = read.Count("limit-headers", 64 << 10, 1024);
  limits.body_bytes = read.Count("limit-body", 4 << 20, 1024);
  limits.header_seconds = read.Number("limit-header-time", 10, 0.1, 3600);
  limits.body_seconds = read.Number("limit-body-time", 60, 0.1, 3600);
  limits.idle_seconds = read.Number("limit-idle-time", 75, 0.1, 3600);
  limits.connections = read.Count("limit-connections", 10240, 1);
  limits.json_depth = read.Count("limit-json-depth", 64, 4, 512);
  limits.messages = read.Count("limit-messages", 4096, 1);
  limits.stop_strings = read.Count("limit-stop-strings", 16, 1);
  limits.n = read.Count("limit-n", 16, 1);
  limits.logit_bias = read.Count("limit-logit-bias", 1024, 1);
  limits.template_steps = read.Count("limit-template-steps", 500000, 1000);
  limits.template_output_bytes = read.Count("limit-template-output", 8 << 20, 1024);
}

void ReadOperations(const Settings& s, Reader& read, ServeConfig& out) {
  out.shutdown_seconds = read.Number("shutdown-timeout", 30, 0, 3600);
  out.log_stats = !s.GetBool("disable-log-stats", false);
  const std::string format = read.OneOf("log-format", "auto", {"auto", "text", "json"});
  out.log_format = format == "text"   ? LogFormat::kText
                   : format == "json" ? LogFormat::kJson
                                      : LogFormat::kAuto;
  const std::string level = read.OneOf("log-level", "info", {"debug", "info", "warn", "error"});
  out.log_level = level == "debug"   ? LogLevel::kDebug
                  : level == "warn"  ? LogLevel::kWarn
                  : level == "error" ? LogLevel::kError
                                     : LogLevel::kInfo;
}

std::string ValueText(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

bool IsLoopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]" || host.starts_with("127.");
}

StatusOr<ServeConfig> MakeServeConfig(const ParsedSettings& parsed) {
  ServeConfig out;
  Reader read(parsed.settings);
  ReadModel(parsed, read, out);
  ReadShape(parsed.settings, read, out);
  ReadFabric(parsed.settings, read, out);
  ReadMemory(parsed.settings, read, out);
  ReadApi(parsed.settings, read, out);
  ReadLimits(read, out.limits);
  ReadOperations(parsed.settings, read, out);
  RETURN_IF_ERROR(read.status());
  if (const Setting* speculative = parsed.settings.Find("speculative-config")) {
    ASSIGN_OR_RETURN(out.speculative, ParseSpeculativeConfig(speculative->value));
  }
  return out;
}

std::string FlagHelp() {
  std::string out;
  for (const FlagSpec& flag : AllFlags()) {
    if (!flag.refused.empty()) continue;
    out += fmt::format("  --{:<32} {}\n", flag.name, flag.help);
    out += fmt::format("    {:<32} default {}; {}; YAML {}\n", "",
                       flag.default_text.empty() ? "none" : flag.default_text, EnvName(flag.name), flag.name);
  }
  return out;
}

std::string DescribeOrigins(const Settings& settings) {
  std::string out;
  for (const auto& [name, setting] : settings.values()) {
    const std::string shown = name == "api-key" ? "(hidden)" : ValueText(setting.value);
    out += fmt::format("{} = {}  ({})\n", name, shown, setting.origin);
  }
  return out;
}

}  // namespace paceline
