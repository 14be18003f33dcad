// paceline-stage-worker: one pipeline stage. Takes the configuration of `paceline serve` and --worker-rank.

#include <cstdio>
#include <cstring>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/cluster/program.h"
#include "common/cluster/served_model.h"
#include "common/cluster/worker_runtime.h"
#include "kernels/common/numerics.h"
#include "stage_worker/stage_shell.h"

namespace paceline {
namespace {

StatusOr<StageSetup> MakeSetup(const ServeConfig& config) {
  ASSIGN_OR_RETURN(ServedModel served, OpenServedModel(config));
  StageSetup setup;
  setup.stage = static_cast<uint32_t>(config.worker_rank);
  CpuExecutorOptions& executor = setup.executor;
  executor.layers = served.stages[setup.stage];
  executor.rows_max = config.max_batched_tokens;
  executor.positions_max = served.max_model_len;
  executor.kv_block_size = config.block_size;
  executor.kv_dtype = config.kv_dtype;
  executor.threads = ThreadsPerWorker(config);

  const KvPlanInput input = KvInputOfStage(config, served, setup.stage);
  ASSIGN_OR_RETURN(const KvPlan plan, PlanKvPool(input));
  executor.kv_blocks = plan.blocks;
  LogInfo("stage_planned", "layers={}..{} weight_mib={} kv_mib={} kv_blocks={} threads={} isa={} numerics={}",
          executor.layers.first, executor.layers.end, input.weight_bytes >> 20, plan.pool_bytes() >> 20,
          plan.blocks, executor.threads, kernels::InstructionSetName(), kernels::kNumericsClass);

  setup.fingerprint = MakeFingerprint(config, served, std::string(kernels::kNumericsClass));
  setup.source = std::move(served.source);
  return setup;
}

int Main(const ServeConfig& config) {
  if (config.worker_rank < 0) {
    LogError("start_refused", "reason=\"paceline-stage-worker wants --worker-rank 0..{}\"",
             config.pipeline_size - 1);
    return kExitConfig;
  }
  WorkerRuntime runtime(config, {Role::kStage, static_cast<uint32_t>(config.worker_rank), RandomNonce()});
  Status status = runtime.Start();
  StatusOr<StageSetup> setup = status.ok() ? MakeSetup(config) : StatusOr<StageSetup>(status);
  if (!setup.ok()) return RefuseStart(setup.status());
  StageShell shell(config, runtime, *std::move(setup));
  if (status = shell.Start(); !status.ok()) return RefuseStart(status);
  return runtime.Run();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::RunProgram(
      {argv + 1, argv + argc}, "paceline-stage-worker",
      [](const paceline::ServeConfig& config) { return fmt::format("stage-{}", config.worker_rank); },
      paceline::Main);
}
