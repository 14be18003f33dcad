#include "deploy/cli/serve.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/cluster/program.h"
#include "deploy/cli/node_rank.h"
#include "deploy/cli/plan.h"
#include "deploy/cli/supervisor.h"

namespace paceline {
namespace {

// Removes the runtime directory with whatever killed children left in it.
class RuntimeDir {
 public:
  static StatusOr<std::unique_ptr<RuntimeDir>> Create() {
    const char* base = std::getenv("XDG_RUNTIME_DIR");
    std::string path = fmt::format("{}/paceline-XXXXXX", base != nullptr && *base != 0 ? base : "/tmp");
    if (mkdtemp(path.data()) == nullptr) {
      return UnavailableError("no runtime directory at {}: {}", path, std::strerror(errno));
    }
    return std::unique_ptr<RuntimeDir>(new RuntimeDir(std::move(path)));
  }
  ~RuntimeDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit RuntimeDir(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

// The programs of this node: rank 0 has the coordinator and the drafter, each node its consecutive stages.
std::vector<SupervisedProgram> NodePrograms(const ServeConfig& config, uint32_t node_rank,
                                            const std::string& runtime_dir,
                                            const std::vector<std::string>& args) {
  const auto command = [&](const std::string& program, std::vector<std::string> more) {
    std::vector<std::string> argv = {SiblingProgram(program)};
    argv.insert(argv.end(), args.begin(), args.end());
    if (!runtime_dir.empty()) argv.insert(argv.end(), {"--runtime-dir", runtime_dir});
    argv.insert(argv.end(), more.begin(), more.end());
    return argv;
  };
  std::vector<SupervisedProgram> programs;
  if (node_rank == 0) programs.push_back({"coordinator", command("paceline-coordinator", {}), true});
  if (config.external_launcher) return programs;
  const uint32_t stages = config.pipeline_size / config.num_nodes;
  for (uint32_t stage = node_rank * stages; stage < (node_rank + 1) * stages; ++stage) {
    // On other nodes nobody but the worker sees the coordinator go; here the supervisor decides.
    const char* on_loss = node_rank == 0 ? "exit" : "wait";
    programs.push_back({fmt::format("stage-{}", stage),
                        command("paceline-stage-worker", {"--worker-rank", fmt::format("{}", stage),
                                                          "--on-coordinator-loss", on_loss}),
                        false});
  }
  if (node_rank == 0 && config.speculative.enabled()) {
    programs.push_back({"draft", command("paceline-draft-worker", {"--on-coordinator-loss", "exit"}), false});
  }
  return programs;
}

int Serve(const ServeConfig& config, const std::vector<std::string>& args) {
  // Everything that can be refused is refused here, before any process is started or weight is read.
  if (const Status status = CheckPlan(config); !status.ok()) return RefuseStart(status);
  StatusOr<NodeRank> node =
      ResolveNodeRank(config.node_rank, config.num_nodes, HostName(),
                      [](const char* name) -> const char* { return std::getenv(name); });
  if (!node.ok()) return RefuseStart(node.status());
  if (config.headless && node->rank == 0) {
    return RefuseStart(InvalidArgumentError("--headless is for nodes other than 0: node 0 runs the API"));
  }
  if (config.num_nodes > 1)
    LogInfo("node", "rank={} source=\"{}\" of={}", node->rank, node->source, config.num_nodes);
  if (config.fabric_insecure)
    LogWarn("fabric_insecure", "traffic between hosts is not encrypted and not authenticated");

  std::unique_ptr<RuntimeDir> runtime_dir;
  if (config.single_host() && config.runtime_dir.empty()) {
    StatusOr<std::unique_ptr<RuntimeDir>> created = RuntimeDir::Create();
    if (!created.ok()) return RefuseStart(created.status());
    runtime_dir = *std::move(created);
  }
  const auto drain =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(config.shutdown_seconds));
  Supervisor supervisor(
      NodePrograms(config, node->rank, runtime_dir != nullptr ? runtime_dir->path() : "", args), drain);
  return supervisor.Run();
}

}  // namespace

std::string SiblingProgram(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / name).string();
}

int ServeCommand(const std::vector<std::string>& args) {
  return RunProgram(
      args, "paceline serve", [](const ServeConfig&) { return std::string("serve"); },
      [&](const ServeConfig& config) { return Serve(config, args); });
}

}  // namespace paceline
