// paceline: the command people type.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/exit_code.h"
#include "common/base/version.h"
#include "common/config/serve_config.h"
#include "common/protocol/membership.h"
#include "deploy/cli/chat.h"
#include "deploy/cli/inspect.h"
#include "deploy/cli/plan.h"
#include "deploy/cli/serve.h"

namespace paceline {
namespace {

void PrintUsage(std::FILE* out) {
  fmt::print(out, R"(paceline: large language models in pipeline stages, with speculative decoding

  paceline serve MODEL [flags]        start a server on this host
  paceline chat MODEL [flags]         talk to a model that is started in place
  paceline chat --url URL             talk to a server
  paceline plan MODEL [flags]         layers and memory per stage, before any weight is read
  paceline inspect model MODEL        tensors, tokenizer and chat template of a model
  paceline inspect config [flags]     each setting and where it comes from

  --output text|json                  for plan and inspect
  --help, --version

MODEL is a .gguf file, a Hugging Face folder, or a hub id that lies in the cache under HF_HOME.
`paceline serve --help` lists all flags with their default, environment variable and YAML key.
)");
}

struct Command {
  std::string_view name;
  int (*run)(const std::vector<std::string>& args);
  std::string_view usage;  // empty: the command prints its own help
};

constexpr Command kCommands[] = {
    {"serve", ServeCommand, ""},
    {"chat", ChatCommand,
     R"(paceline chat MODEL [flags]   talk to a model that is started in place
paceline chat --url URL       talk to a server

  --url URL            the server, with or without /v1
  --api-key KEY        with --url: the key it asks for
  --prompt TEXT        ask once, print the answer and end
  --system TEXT        the system message
  --max-tokens N       longest answer
  --temperature T      0 = always the likeliest token
ctrl-C stops an answer, ctrl-D ends the program.
)"},
    {"plan", PlanCommand,
     R"(paceline plan MODEL [flags]   layers and memory per stage, before any weight is read

  --output text|json
)"},
    {"inspect", InspectCommand,
     R"(paceline inspect model MODEL      tensors, tokenizer and chat template of a model
paceline inspect config [flags]   each setting and where it comes from

  --output text|json
)"},
};

bool AsksForHelp(const std::vector<std::string>& args) {
  return std::any_of(args.begin(), args.end(),
                     [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
}

int Run(const Command& command, const std::vector<std::string>& args) {
  if (command.usage.empty() || !AsksForHelp(args)) return command.run(args);
  fmt::print(
      "{}\nFlags of `paceline serve`, taken too (also as environment variables and YAML keys, --config "
      "FILE):\n{}",
      command.usage, FlagHelp());
  return kExitOk;
}

int Main(const std::vector<std::string>& args) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    PrintUsage(args.empty() ? stderr : stdout);
    return args.empty() ? kExitConfig : kExitOk;
  }
  if (args[0] == "--version") {
    fmt::print("paceline {} build {} protocol {}.{}\n", kPacelineVersion, kBuildId, kProtocolMajor,
               kProtocolMinor);
    return kExitOk;
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  for (const Command& command : kCommands) {
    if (args[0] == command.name) return Run(command, rest);
  }
  fmt::print(stderr, "paceline: unknown command '{}'; want serve, chat, plan or inspect\n", args[0]);
  return kExitConfig;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main({argv + 1, argv + argc}); }
