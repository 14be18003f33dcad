#include "deploy/cli/plan.h"

#include <algorithm>

#include "common/base/exit_code.h"
#include "common/cluster/served_model.h"
#include "common/text/same_vocabulary.h"
#include "deploy/cli/output.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

StatusOr<StagePlan> PlanStage(const ServeConfig& config, const ServedModel& served, uint32_t stage) {
  const KvPlanInput input = KvInputOfStage(config, served, stage);
  ASSIGN_OR_RETURN(const KvPlan kv, PlanKvPool(input));
  return StagePlan{stage,           input.layers.first, input.layers.end, input.weight_bytes,
                   kv.pool_bytes(), kv.blocks};
}

// Bytes of weights that a decode step streams on that stage: the embedding is a few rows.
uint64_t StreamedBytes(const ServedModel& served, const StageLayers& layers) {
  StageLayers streamed = layers;
  streamed.has_embedding = false;
  return StageWeightBytes(streamed, served.source->config(), served.source->Entries());
}

nlohmann::ordered_json ToJson(const ClusterPlan& plan) {
  nlohmann::ordered_json out;
  out["architecture"] = plan.architecture;
  out["num_layers"] = plan.num_layers;
  out["max_model_len"] = plan.max_model_len;
  out["kv_tokens"] = plan.kv_tokens;
  out["contexts_at_once"] = plan.contexts_at_once;
  out["step_share_largest"] = plan.step_share_largest;
  out["draft_bytes"] = plan.draft_bytes;
  for (const StagePlan& stage : plan.stages) {
    out["stages"].push_back({{"stage", stage.stage},
                             {"first_layer", stage.first_layer},
                             {"end_layer", stage.end_layer},
                             {"weight_bytes", stage.weight_bytes},
                             {"kv_bytes", stage.kv_bytes},
                             {"kv_blocks", stage.kv_blocks}});
  }
  return out;
}

void PrintText(const ClusterPlan& plan) {
  fmt::print("{}: {} layers over {} stages, {} tokens of context\n\n", plan.architecture, plan.num_layers,
             plan.stages.size(), plan.max_model_len);
  fmt::print("{:>5}  {:>9}  {:>10}  {:>10}  {:>9}\n", "stage", "layers", "weights", "KV pool", "blocks");
  for (const StagePlan& stage : plan.stages) {
    fmt::print("{:>5}  {:>9}  {:>10}  {:>10}  {:>9}\n", stage.stage,
               fmt::format("{}..{}", stage.first_layer, stage.end_layer - 1), HumanBytes(stage.weight_bytes),
               HumanBytes(stage.kv_bytes), stage.kv_blocks);
  }
  fmt::print("\nKV cache: {} tokens, {:.1f} whole contexts at once\n", plan.kv_tokens, plan.contexts_at_once);
  fmt::print("Slowest stage: {:.0f} % of a step's weight bytes ({:.0f} % would be even)\n",
             100 * plan.step_share_largest, 100.0 / static_cast<double>(plan.stages.size()));
  if (plan.draft_bytes > 0) fmt::print("Draft model: {}\n", HumanBytes(plan.draft_bytes));
}

}  // namespace

StatusOr<ClusterPlan> MakePlan(const ServeConfig& config) {
  ASSIGN_OR_RETURN(const ServedModel served, OpenServedModel(config));
  ClusterPlan plan;
  plan.architecture = served.source->config().architecture;
  plan.num_layers = served.source->config().num_layers;
  plan.max_model_len = served.max_model_len;
  uint32_t blocks = UINT32_MAX;
  uint64_t streamed_all = 0, streamed_largest = 0;
  for (uint32_t s = 0; s < served.stages.size(); ++s) {
    StatusOr<StagePlan> stage = PlanStage(config, served, s);
    if (!stage.ok()) return Annotate(stage.status(), fmt::format("stage {}", s));
    blocks = std::min(blocks, stage->kv_blocks);
    const uint64_t streamed = StreamedBytes(served, served.stages[s]);
    streamed_all += streamed;
    streamed_largest = std::max(streamed_largest, streamed);
    plan.stages.push_back(*std::move(stage));
  }
  plan.kv_tokens = uint64_t{blocks} * config.block_size;
  plan.contexts_at_once = static_cast<double>(plan.kv_tokens) / plan.max_model_len;
  plan.step_share_largest =
      static_cast<double>(streamed_largest) / static_cast<double>(std::max<uint64_t>(1, streamed_all));
  if (config.speculative.method == DraftMethod::kDraftModel) {
    StatusOr<std::unique_ptr<WeightSource>> draft = OpenModel(config.speculative.model);
    if (!draft.ok()) return Annotate(draft.status(), "speculative-config.model");
    RETURN_IF_ERROR(CheckSameVocabulary(config.model, config.speculative.model));
    for (const TensorEntry& entry : (*draft)->Entries()) plan.draft_bytes += entry.ignored ? 0 : entry.bytes;
  }
  return plan;
}

Status CheckPlan(const ServeConfig& config) { return MakePlan(config).status(); }

int PlanCommand(const std::vector<std::string>& args) {
  StatusOr<OutputArgs> split = TakeOutputFlag(args);
  StatusOr<ServeConfig> config =
      split.ok() ? ReadServeConfig(split->rest) : StatusOr<ServeConfig>(split.status());
  StatusOr<ClusterPlan> plan = config.ok() ? MakePlan(*config) : StatusOr<ClusterPlan>(config.status());
  if (!plan.ok()) return PrintRefusal("paceline plan", plan.status());
  if (split->json)
    fmt::print("{}\n", ToJson(*plan).dump(2));
  else
    PrintText(*plan);
  return kExitOk;
}

}  // namespace paceline
