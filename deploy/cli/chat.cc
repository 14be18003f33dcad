#include "deploy/cli/chat.h"

#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/exit_code.h"
#include "deploy/cli/api_client.h"
#include "deploy/cli/child_process.h"
#include "deploy/cli/output.h"
#include "deploy/cli/serve.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

using nlohmann::json;

constexpr Duration kStartTimeout = 120s;
constexpr Duration kStartPoll = 50ms;

std::atomic<bool> cancel_answer{false};
void OnInterrupt(int) { cancel_answer = true; }

struct ChatOptions {
  std::string url;
  std::string api_key;
  std::string system;
  std::string prompt;  // not empty: ask once
  std::string max_tokens;
  std::string temperature;
  std::vector<std::string> serve_args;  // MODEL and its flags, when there is no --url
};

StatusOr<ChatOptions> ReadOptions(const std::vector<std::string>& args) {
  ChatOptions out;
  out.serve_args = args;
  ASSIGN_OR_RETURN(out.url, TakeFlag(out.serve_args, "url"));
  ASSIGN_OR_RETURN(out.system, TakeFlag(out.serve_args, "system"));
  ASSIGN_OR_RETURN(out.prompt, TakeFlag(out.serve_args, "prompt"));
  ASSIGN_OR_RETURN(out.max_tokens, TakeFlag(out.serve_args, "max-tokens"));
  ASSIGN_OR_RETURN(out.temperature, TakeFlag(out.serve_args, "temperature"));
  if (!out.url.empty()) {
    ASSIGN_OR_RETURN(out.api_key, TakeFlag(out.serve_args, "api-key"));
    if (!out.serve_args.empty()) {
      return InvalidArgumentError("--url talks to a server that runs: '{}' is for one that is started",
                                  out.serve_args[0]);
    }
  } else if (out.serve_args.empty()) {
    return InvalidArgumentError("want --url URL, or MODEL to start one in place");
  }
  return out;
}

// A server of our own, on a unix socket in a folder of its own; ends with this object.
class LocalServer {
 public:
  static StatusOr<std::unique_ptr<LocalServer>> Start(const std::vector<std::string>& serve_args) {
    std::string dir = "/tmp/paceline-chat-XXXXXX";
    if (mkdtemp(dir.data()) == nullptr)
      return UnavailableError("no folder at {}: {}", dir, std::strerror(errno));
    std::unique_ptr<LocalServer> server(new LocalServer(std::move(dir)));
    std::vector<std::string> argv = {SiblingProgram("paceline"), "serve"};
    argv.insert(argv.end(), serve_args.begin(), serve_args.end());
    argv.insert(argv.end(), {"--uds", server->socket(), "--log-level", "error", "--shutdown-timeout", "0"});
    ASSIGN_OR_RETURN(ChildProcess child, ChildProcess::Start(argv));
    server->child_.emplace(std::move(child));
    RETURN_IF_ERROR(server->WaitUntilReady());
    return server;
  }
  ~LocalServer() {
    if (child_.has_value()) {
      child_->Signal(SIGTERM);
      child_->Reap();
    }
    unlink(socket().c_str());
    rmdir(dir_.c_str());
  }
  std::string socket() const { return dir_ + "/api.sock"; }

 private:
  explicit LocalServer(std::string dir) : dir_(std::move(dir)) {}

  Status WaitUntilReady() {
    ApiClient client("http://localhost", socket(), "");
    const Instant deadline = MonotonicNow() + kStartTimeout;
    while (MonotonicNow() < deadline) {
      if (client.Get("/health").ok()) return OkStatus();
      pollfd ended{child_->exit_fd(), POLLIN, 0};
      if (poll(&ended, 1, static_cast<int>(ToMicros(kStartPoll) / 1000)) > 0) {
        const ExitState state = child_->Reap();
        child_.reset();
        return FailedPreconditionError("the server did not start ({}); its message is above",
                                       state.Describe());
      }
    }
    return DeadlineExceededError("the server was not ready within {:.0f} s", ToSeconds(kStartTimeout));
  }

  std::string dir_;
  std::optional<ChildProcess> child_;
};

class Conversation {
 public:
  Conversation(ApiClient& client, const ChatOptions& options) : client_(client), options_(options) {
    if (!options.system.empty()) messages_.push_back({{"role", "system"}, {"content", options.system}});
  }

  Status SetModel() {
    ASSIGN_OR_RETURN(const json models, client_.Get("/v1/models"));
    if (!models.contains("data") || models["data"].empty())
      return UnavailableError("the server names no model");
    model_ = models["data"][0].value("id", "");
    return OkStatus();
  }

  // Streams the answer to standard output; a cancelled one stays in the conversation as far as it came.
  Status Ask(const std::string& text) {
    messages_.push_back({{"role", "user"}, {"content", text}});
    answer_.clear();
    usage_ = json();
    cancel_answer = false;
    const Instant begin = MonotonicNow();
    first_token_ = std::nullopt;
    Status status = client_.PostStream(
        "/v1/chat/completions", Body(), [&](std::string_view event) { OnEvent(event); }, cancel_answer);
    if (status.code() == absl::StatusCode::kCancelled) {
      fmt::print("\n(stopped)");
      status = OkStatus();
    }
    if (status.ok() && !stream_error_.empty()) status = UnavailableError("{}", stream_error_);
    fmt::print("\n");
    std::fflush(stdout);  // before the figures, which go to standard error
    if (!status.ok()) {
      messages_.erase(messages_.size() - 1);
      return status;
    }
    messages_.push_back({{"role", "assistant"}, {"content", answer_}});
    PrintFigures(begin);
    return OkStatus();
  }

 private:
  json Body() const {
    json body = {{"model", model_},
                 {"messages", messages_},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}}};
    if (!options_.max_tokens.empty()) body["max_tokens"] = std::atoi(options_.max_tokens.c_str());
    if (!options_.temperature.empty()) body["temperature"] = std::atof(options_.temperature.c_str());
    return body;
  }

  void OnEvent(std::string_view event) {
    const json chunk = json::parse(event, nullptr, false);
    if (!chunk.is_object()) return;
    if (chunk.contains("error")) stream_error_ = chunk["error"].value("message", std::string(event));
    if (chunk.contains("usage") && chunk["usage"].is_object()) usage_ = chunk["usage"];
    if (!chunk.contains("choices") || chunk["choices"].empty()) return;
    const json& delta = chunk["choices"][0].value("delta", json::object());
    if (!delta.contains("content") || !delta["content"].is_string()) return;
    const std::string text = delta["content"].get<std::string>();
    if (text.empty()) return;
    if (!first_token_.has_value()) first_token_ = MonotonicNow();
    answer_ += text;
    fmt::print("{}", text);
    std::fflush(stdout);
  }

  void PrintFigures(Instant begin) const {
    if (!usage_.is_object() || !first_token_.has_value()) return;
    const int64_t tokens = usage_.value("completion_tokens", int64_t{0});
    const double seconds = ToSeconds(MonotonicNow() - *first_token_);
    std::string drafts;
    if (const json details = usage_.value("completion_tokens_details", json::object()); details.is_object()) {
      const int64_t accepted = details.value("accepted_prediction_tokens", int64_t{0});
      const int64_t rejected = details.value("rejected_prediction_tokens", int64_t{0});
      if (accepted + rejected > 0)
        drafts = fmt::format(", {} of {} drafts accepted", accepted, accepted + rejected);
    }
    fmt::print(stderr, "[{} tokens, first after {:.2f} s, {:.1f} tokens/s{}]\n", tokens,
               ToSeconds(*first_token_ - begin),
               seconds > 0 ? static_cast<double>(std::max<int64_t>(0, tokens - 1)) / seconds : 0.0, drafts);
  }

  ApiClient& client_;
  const ChatOptions& options_;
  std::string model_;
  json messages_ = json::array();
  std::string answer_;
  json usage_;
  std::string stream_error_;
  std::optional<Instant> first_token_;
};

// Waits until a line was typed, or the end of input; false: ctrl-C came first. A signal between a look at the
// flag and a blocking read would go unnoticed, so this looks again from time to time.
bool WaitForLine() {
  constexpr int kLookMillis = 100;
  while (!cancel_answer.exchange(false)) {
    pollfd typed{STDIN_FILENO, POLLIN, 0};
    if (poll(&typed, 1, kLookMillis) > 0) return true;
  }
  return false;
}

// Reads lines until the end of input; an empty one is skipped, ctrl-C at the prompt too.
int Talk(Conversation& conversation) {
  const bool person = isatty(STDIN_FILENO) != 0;
  if (person) fmt::print(stderr, "Type a message; ctrl-C stops an answer, ctrl-D ends.\n");
  std::string line;
  while (true) {
    if (person) {
      fmt::print("\n> ");
      std::fflush(stdout);
      if (!WaitForLine()) continue;
    }
    if (!std::getline(std::cin, line)) return kExitOk;
    if (line.empty()) continue;
    if (const Status status = conversation.Ask(line); !status.ok())
      fmt::print(stderr, "error: {}\n", Message(status));
  }
}

int Chat(const ChatOptions& options, ApiClient& client) {
  Conversation conversation(client, options);
  if (const Status status = conversation.SetModel(); !status.ok())
    return PrintRefusal("paceline chat", status);
  if (options.prompt.empty()) return Talk(conversation);
  const Status status = conversation.Ask(options.prompt);
  return status.ok() ? static_cast<int>(kExitOk) : PrintRefusal("paceline chat", status);
}

}  // namespace

int ChatCommand(const std::vector<std::string>& args) {
  StatusOr<ChatOptions> options = ReadOptions(args);
  if (!options.ok()) return PrintRefusal("paceline chat", options.status());
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  sigaction(SIGINT, &action, nullptr);

  if (!options->url.empty()) {
    ApiClient client(options->url, "", options->api_key);
    return Chat(*options, client);
  }
  StatusOr<std::unique_ptr<LocalServer>> server = LocalServer::Start(options->serve_args);
  if (!server.ok()) return PrintRefusal("paceline chat", server.status());
  ApiClient client("http://localhost", (*server)->socket(), "");
  return Chat(*options, client);
}

}  // namespace paceline
