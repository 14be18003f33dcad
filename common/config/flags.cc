#include "common/config/flags.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <vector>

#include "common/base/checked_size.h"

namespace paceline {
namespace {

constexpr std::string_view kLater = "this build does not have it yet";

// Grouped as in the documentation: model, parallelism, memory and batching, speculation, API, operations,
// caps.
constexpr FlagSpec kFlags[] = {
    {"model", FlagKind::kString, "",
     "MODEL when it is not given as an argument: a folder, a .gguf file or a cached hub id"},
    {"served-model-name", FlagKind::kList, "MODEL", "names of the model in the API; the first is echoed"},
    {"dtype", FlagKind::kString, "auto",
     "auto, half, float16, bfloat16, float, float32; the CPU computes in float32"},
    {"quantization", FlagKind::kString, "from the model", "must agree with the file"},
    {"max-model-len", FlagKind::kSize, "from the model",
     "tokens of context; auto or -1 = the model's own limit"},
    {"chat-template", FlagKind::kString, "the model's", "path of a Jinja template, or its text"},
    {"default-chat-template-kwargs", FlagKind::kJson, "", "variables for every rendering of the template"},
    {"chat-template-content-format", FlagKind::kString, "auto", "auto, string, openai"},
    {"response-role", FlagKind::kString, "assistant", "role of answers"},

    {"tensor-parallel-size", FlagKind::kInt, "1", "ranks a stage is split over"},
    {"pipeline-parallel-size", FlagKind::kInt, "1", "stages, at most the number of layers"},
    {"pipeline-layer-partition", FlagKind::kString, "auto", "auto, even, or layers per stage: 10,12,8 (own)"},
    {"data-parallel-size", FlagKind::kInt, "1", "only 1"},
    {"distributed-executor-backend", FlagKind::kString, "mp",
     "mp: serve starts the local workers; external_launcher: somebody else does"},
    {"nnodes", FlagKind::kInt, "1", "hosts"},
    {"node-rank", FlagKind::kString, "auto", "this host's number from 0, or auto"},
    {"master-addr", FlagKind::kString, "127.0.0.1", "where the coordinator listens for workers"},
    {"master-port", FlagKind::kInt, "29501", "control port; the urgent lane is the one after it"},
    {"headless", FlagKind::kBool, "false", "start only this node's workers"},
    {"host-ip", FlagKind::kString, "route to the master", "address told to peers (own)"},
    {"fabric-ports", FlagKind::kString, "ephemeral", "first-last, for firewalls (own)"},
    {"fabric-keys", FlagKind::kString, "", "key directory (own)", kLater},
    {"fabric-insecure", FlagKind::kBool, "false",
     "allow non-loopback addresses without keys, on a private network (own)"},
    {"distributed-timeout-seconds", FlagKind::kInt, "600", "longest wait for the group to form"},
    {"worker-rank", FlagKind::kInt, "", "paceline-stage-worker: stage x tensor-parallel size + rank (own)"},
    {"on-coordinator-loss", FlagKind::kString, "wait",
     "workers: exit, or wait for the next coordinator (own)"},
    {"runtime-dir", FlagKind::kString, "",
     "directory (mode 0700) of the sockets of one host; serve makes a fresh one (own)"},

    {"gpu-memory-utilization", FlagKind::kFloat, "0.92",
     "share of the memory that may be used; on CPU of the host's"},
    {"kv-cache-memory-bytes", FlagKind::kSize, "", "KV pool per stage in bytes; overrides the share"},
    {"kv-cache-dtype", FlagKind::kString, "auto", "auto (float16), float16, float32"},
    {"block-size", FlagKind::kInt, "16", "tokens in a KV block: 8, 16, 32, 64"},
    {"max-num-seqs", FlagKind::kInt, "128 x world size", "sequences that run at once"},
    {"max-num-batched-tokens", FlagKind::kSize, "2048 x world size",
     "rows of a step; long prompts go in chunks"},
    {"num-virtual-engines", FlagKind::kInt, "pipeline size", "microbatch slots (own)"},
    {"max-queued-requests", FlagKind::kInt, "2048", "beyond it: 429 (own)"},
    {"enable-prefix-caching", FlagKind::kBool, "false", "(differs: not in this build yet)", kLater},
    {
        "enable-chunked-prefill",
        FlagKind::kBool,
        "true",
        "always on",
    },
    {"scheduling-policy", FlagKind::kString, "fcfs", "fcfs"},
    {"stream-interval", FlagKind::kInt, "1", "tokens per streamed chunk, at least"},
    {"threads", FlagKind::kInt, "share of the cores", "compute threads of each worker (own)"},
    {"enforce-eager", FlagKind::kBool, "false", "no device graphs; no effect on CPU"},

    {"speculative-config", FlagKind::kJson, "",
     "JSON: method, model, num_speculative_tokens, ...; see README"},
    {"per-request-spec-decode-metrics", FlagKind::kString, "none",
     "none, summary: acceptance of the request in its answer"},
    {"draft-wait-share", FlagKind::kFloat, "0.5",
     "share of a step that stage 0 waits for a late proposal (own)"},
    {"run-ahead", FlagKind::kInt, "0", "frames of one sequence in flight beyond the first (own)"},

    {"host", FlagKind::kString, "127.0.0.1", "API address (differs: no open server without a key)"},
    {"port", FlagKind::kInt, "8000", "API port; 0 = any free one"},
    {"uds", FlagKind::kString, "", "API unix socket instead of host and port"},
    {"api-key", FlagKind::kList, "", "keys that the API asks for"},
    {"api-key-file", FlagKind::kString, "", "file with one key a line"},
    {"root-path", FlagKind::kString, "", "prefix that a proxy strips"},
    {"allowed-origins", FlagKind::kList, "", "CORS origins; none by default (differs)"},
    {"allowed-methods", FlagKind::kList, "", "CORS methods"},
    {"allowed-headers", FlagKind::kList, "", "CORS headers"},
    {"allow-credentials", FlagKind::kBool, "false", "CORS credentials"},
    {"max-logprobs", FlagKind::kInt, "20", "most alternatives a request may ask for"},
    {"return-tokens-as-token-ids", FlagKind::kBool, "false", "tokens in logprobs as token_id:N"},
    {"enable-force-include-usage", FlagKind::kBool, "false", "usage in streams even when not asked for"},
    {"enable-request-id-headers", FlagKind::kBool, "true", "x-request-id is taken or made, and echoed"},
    {"sse-ping-interval", FlagKind::kFloat, "15",
     "seconds without an event before an empty line; 0 = off (own)"},
    {"ssl-keyfile", FlagKind::kString, "", "TLS key", kLater},
    {"ssl-certfile", FlagKind::kString, "", "TLS certificate", kLater},
    {"enable-auto-tool-choice", FlagKind::kBool, "false", "tools", kLater},
    {"tool-call-parser", FlagKind::kString, "", "tools", kLater},
    {"reasoning-parser", FlagKind::kString, "", "reasoning", kLater},
    {"admin-socket", FlagKind::kString, "", "administration socket (own)", kLater},
    {"health-host", FlagKind::kString, "127.0.0.1", "health listener of each process (own)", kLater},
    {"health-port", FlagKind::kInt, "", "health listener of each process (own)", kLater},
    {"otlp-traces-endpoint", FlagKind::kString, "", "OpenTelemetry", kLater},
    {"trace-dir", FlagKind::kString, "", "trace files (own)", kLater},
    {"numa-bind", FlagKind::kBool, "false", "NUMA binding", kLater},

    {"shutdown-timeout", FlagKind::kFloat, "30",
     "seconds that streams may finish in after SIGTERM; 0 = abort (differs)"},
    {"disable-log-stats", FlagKind::kBool, "false", "no line of figures every 10 s"},
    {"enable-log-requests", FlagKind::kBool, "false", "a line a request, without its text"},
    {"log-format", FlagKind::kString, "auto", "auto (text on a terminal), text, json (own)"},
    {"log-level", FlagKind::kString, "info", "debug, info, warn, error (own)"},
    {"enable-vllm-metric-names", FlagKind::kBool, "true", "the vllm: names beside our own (own)"},

    {"limit-request-line", FlagKind::kSize, "8K", "bytes of a request line"},
    {"limit-header-line", FlagKind::kSize, "8K", "bytes of a header line"},
    {"limit-headers", FlagKind::kSize, "64K", "bytes of all headers"},
    {"limit-body", FlagKind::kSize, "4M", "bytes of a body"},
    {"limit-header-time", FlagKind::kFloat, "10", "seconds for all headers"},
    {"limit-body-time", FlagKind::kFloat, "60", "seconds for the body"},
    {"limit-idle-time", FlagKind::kFloat, "75", "seconds an idle connection stays"},
    {"limit-connections", FlagKind::kInt, "10240", "open connections"},
    {"limit-json-depth", FlagKind::kInt, "64", "nesting of a body"},
    {"limit-messages", FlagKind::kInt, "4096", "messages of a chat"},
    {"limit-stop-strings", FlagKind::kInt, "16", "stop strings of a request"},
    {"limit-n", FlagKind::kInt, "16", "choices of a prompt"},
    {"limit-logit-bias", FlagKind::kInt, "1024", "entries of logit_bias"},
    {"limit-template-steps", FlagKind::kInt, "500000", "work of a chat template"},
    {"limit-template-output", FlagKind::kSize, "8M", "bytes that a chat template may write"},
};

struct ForeignFlag {
  std::string_view name;
  std::string_view hint;
};

constexpr ForeignFlag kForeign[] = {
    {"tp", "--tensor-parallel-size"},
    {"tp-size", "--tensor-parallel-size"},
    {"pp-size", "--pipeline-parallel-size"},
    {"context-length", "--max-model-len"},
    {"c", "--max-model-len"},
    {"ctx-size", "--max-model-len"},
    {"max-seq-len", "--max-model-len"},
    {"mem-fraction-static", "--gpu-memory-utilization"},
    {"max-running-requests", "--max-num-seqs"},
    {"np", "--max-num-seqs"},
    {"parallel", "--max-num-seqs"},
    {"max-batch-size", "--max-num-seqs"},
    {"chunked-prefill-size", "--max-num-batched-tokens"},
    {"b", "--max-num-batched-tokens"},
    {"ub", "--max-num-batched-tokens"},
    {"max-num-tokens", "--max-num-batched-tokens"},
    {"dist-init-addr", "--master-addr and --master-port"},
    {"model-path", "MODEL as the first argument"},
    {"m", "MODEL as the first argument"},
    {"alias", "--served-model-name"},
    {"ts", "--pipeline-layer-partition"},
    {"tensor-split", "--pipeline-layer-partition"},
    {"t", "--threads"},
    {"speculative-algorithm", "--speculative-config.method"},
    {"spec-type", "--speculative-config.method"},
    {"speculative-num-steps", "--speculative-config.num_speculative_tokens"},
    {"draft-max", "--speculative-config.num_speculative_tokens"},
    {"spec-draft-n-max", "--speculative-config.num_speculative_tokens"},
    {"speculative-draft-model-path", "--speculative-config.model"},
    {"md", "--speculative-config.model"},
};

std::string Dashed(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const FlagSpec> AllFlags() { return kFlags; }

const FlagSpec* FindFlag(std::string_view name) {
  const std::string dashed = Dashed(name);
  for (const FlagSpec& flag : kFlags) {
    if (flag.name == dashed) return &flag;
  }
  return nullptr;
}

std::string EnvName(std::string_view flag_name) {
  std::string out = "PACELINE_";
  for (const char c : flag_name) {
    out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return out;
}

std::string_view NearestFlag(std::string_view name) {
  const std::string dashed = Dashed(name);
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, dashed.size() / 3) + 1;
  for (const FlagSpec& flag : kFlags) {
    const size_t distance = EditDistance(dashed, flag.name);
    if (distance < best_distance) {
      best_distance = distance;
      best = flag.name;
    }
  }
  return best;
}

std::string_view ForeignFlagHint(std::string_view name) {
  const std::string dashed = Dashed(name);
  for (const ForeignFlag& foreign : kForeign) {
    if (foreign.name == dashed) return foreign.hint;
  }
  return {};
}

StatusOr<int64_t> ParseSize(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return InvalidArgumentError("want an integer, found '{}'", text);
  const std::string_view suffix(end, static_cast<size_t>(text.data() + text.size() - end));
  int64_t unit = 1;
  if (suffix == "k")
    unit = 1000;
  else if (suffix == "K")
    unit = 1024;
  else if (suffix == "m")
    unit = 1000 * 1000;
  else if (suffix == "M")
    unit = 1024 * 1024;
  else if (suffix == "g")
    unit = 1000 * 1000 * 1000;
  else if (suffix == "G")
    unit = 1024 * 1024 * 1024;
  else if (!suffix.empty())
    return InvalidArgumentError("want an integer with k, K, m, M, g or G, found '{}'", text);
  if (__builtin_mul_overflow(value, unit, &value))
    return InvalidArgumentError("'{}' does not fit 64 bits", text);
  return value;
}

}  // namespace paceline
