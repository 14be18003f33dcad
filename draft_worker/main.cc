// paceline-draft-worker: makes proposals, on stage 0's host. Takes the configuration of `paceline serve`.

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/cluster/program.h"
#include "common/cluster/served_model.h"
#include "common/cluster/worker_runtime.h"
#include "common/model/memory_plan.h"
#include "common/text/same_vocabulary.h"
#include "draft_worker/draft_shell.h"
#include "draft_worker/model_proposer.h"
#include "draft_worker/ngram_proposer.h"

namespace paceline {
namespace {

struct DraftSetup {
  Fingerprint fingerprint;
  std::unique_ptr<WeightSource> source;  // of the draft model, if there is one
  std::unique_ptr<Proposer> proposer;
};

StatusOr<std::unique_ptr<Proposer>> MakeModelProposer(const ServeConfig& config, const ServedModel& served,
                                                      const WeightSource& source) {
  RETURN_IF_ERROR(CheckSameVocabulary(config.model, config.speculative.model));
  const ModelConfig& draft = source.config();
  ModelProposerOptions options;
  options.target_vocab_size = served.source->config().vocab_size;
  options.positions_max = std::min(served.max_model_len, draft.context_len);
  if (config.speculative.max_model_len > 0)
    options.positions_max = std::min(options.positions_max, config.speculative.max_model_len);
  options.kv_block_size = config.block_size;
  options.kv_dtype = config.kv_dtype;
  options.sampling = config.speculative.sampling;
  options.threads = config.threads > 0 ? config.threads : 1;
  KvPlanInput input;
  input.config = &draft;
  input.layers = {0, draft.num_layers, true, true};
  input.block_size = config.block_size;
  input.kv_dtype = config.kv_dtype;
  input.host_bytes = HostMemoryBytes();
  input.memory_share = config.memory_share;
  input.ranks_on_host = config.pipeline_size + 1;
  input.context_len = options.positions_max;
  input.max_num_seqs = config.max_num_seqs;
  ASSIGN_OR_RETURN(const KvPlan plan, PlanKvPool(input));
  options.kv_blocks = plan.blocks;
  LogInfo("draft_planned", "model={} layers={} positions_max={} kv_mib={} threads={}",
          config.speculative.model, draft.num_layers, options.positions_max, plan.pool_bytes() >> 20,
          options.threads);
  return ModelProposer::Create(source, options);
}

StatusOr<DraftSetup> MakeSetup(const ServeConfig& config) {
  ASSIGN_OR_RETURN(const ServedModel served, OpenServedModel(config));
  DraftSetup setup;
  setup.fingerprint = MakeFingerprint(config, served, "");
  if (config.speculative.method == DraftMethod::kNgram) {
    setup.proposer = std::make_unique<NgramProposer>(NgramOptions{
        .min_n = config.speculative.prompt_lookup_min, .max_n = config.speculative.prompt_lookup_max});
    return setup;
  }
  ASSIGN_OR_RETURN(setup.source, OpenModel(config.speculative.model));
  ASSIGN_OR_RETURN(setup.proposer, MakeModelProposer(config, served, *setup.source));
  return setup;
}

int Main(const ServeConfig& config) {
  if (!config.speculative.enabled()) {
    return RefuseStart(InvalidArgumentError("paceline-draft-worker wants --speculative-config"));
  }
  WorkerRuntime runtime(config, {Role::kDrafter, 0, RandomNonce()});
  if (const Status status = runtime.Start(); !status.ok()) return RefuseStart(status);
  StatusOr<DraftSetup> setup = MakeSetup(config);
  if (!setup.ok()) return RefuseStart(setup.status());
  DraftShell shell(config, runtime, std::move(setup->fingerprint), std::move(setup->proposer));
  if (const Status status = shell.Start(); !status.ok()) return RefuseStart(status);
  return runtime.Run();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::RunProgram(
      {argv + 1, argv + argc}, "paceline-draft-worker",
      [](const paceline::ServeConfig&) { return std::string("draft"); }, paceline::Main);
}
