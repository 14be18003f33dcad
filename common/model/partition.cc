#include "common/model/partition.h"

#include <charconv>
#include <numeric>
#include <optional>

#include "common/base/check.h"
#include "common/model/printable.h"

namespace paceline {
namespace {

constexpr std::string_view kFlag = "--pipeline-layer-partition";

// Whole text as a number; empty for anything else.
std::optional<uint32_t> ParseU32(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<uint32_t> EvenCounts(uint32_t num_layers, uint32_t num_stages) {
  std::vector<uint32_t> counts(num_stages, num_layers / num_stages);
  // Stages P-2, P-3, ... take one more each; the remainder is below P, so the last stage never does.
  for (uint32_t i = 0; i < num_layers % num_stages; ++i) ++counts[num_stages - 2 - i];
  return counts;
}

StatusOr<std::vector<uint32_t>> ListedCounts(std::string_view spec, uint32_t num_layers,
                                             uint32_t num_stages) {
  std::vector<uint32_t> counts;
  for (size_t begin = 0; begin <= spec.size();) {
    const size_t end = std::min(spec.find(',', begin), spec.size());
    const std::optional<uint32_t> count = ParseU32(spec.substr(begin, end - begin));
    if (!count || *count == 0) {
      return InvalidArgumentError("{} {}: want \"even\" or layer counts of 1 or more like 10,12,10", kFlag,
                                  Printable(spec));
    }
    counts.push_back(*count);
    begin = end + 1;
  }
  if (counts.size() != num_stages) {
    return InvalidArgumentError(
        "{} {}: {} counts for {} stages; change one of them or --pipeline-parallel-size", kFlag,
        Printable(spec), counts.size(), num_stages);
  }
  const uint64_t sum = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  if (sum != num_layers) {
    return InvalidArgumentError("{} {}: the counts sum to {}, the model has {} layers", kFlag,
                                Printable(spec), sum, num_layers);
  }
  return counts;
}

// Layer of "blk.12.attn_q.weight"; empty for tensors outside the layers.
std::optional<uint32_t> LayerOf(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  return ParseU32(name.substr(0, name.find('.')));
}

}  // namespace

StatusOr<std::vector<StageLayers>> PartitionLayers(std::string_view spec, uint32_t num_layers,
                                                   uint32_t num_stages) {
  if (num_stages == 0) return InvalidArgumentError("--pipeline-parallel-size: want 1 or more, found 0");
  if (num_stages > num_layers) {
    return InvalidArgumentError(
        "--pipeline-parallel-size {}: the model has {} layers, and a stage needs one at least", num_stages,
        num_layers);
  }
  std::vector<uint32_t> counts;
  if (spec == "even") {
    counts = EvenCounts(num_layers, num_stages);
  } else {
    ASSIGN_OR_RETURN(counts, ListedCounts(spec, num_layers, num_stages));
  }
  std::vector<StageLayers> stages;
  uint32_t next = 0;
  for (const uint32_t count : counts) {
    stages.push_back({next, next + count, false, false});
    next += count;
  }
  CHECK_EQ(next, num_layers) << "every layer belongs to exactly one stage";
  stages.front().has_embedding = true;
  stages.back().has_head = true;
  return stages;
}

bool StageReads(const StageLayers& stage, const ModelConfig& config, std::string_view canonical_name) {
  if (const std::optional<uint32_t> layer = LayerOf(canonical_name))
    return *layer >= stage.first && *layer < stage.end;
  if (canonical_name == "token_embd.weight")
    return stage.has_embedding || (stage.has_head && config.tie_word_embeddings);
  if (canonical_name == "output.weight" || canonical_name == "output_norm.weight") return stage.has_head;
  return canonical_name == "rope_freqs.weight";
}

uint64_t StageWeightBytes(const StageLayers& stage, const ModelConfig& config,
                          std::span<const TensorEntry> entries) {
  uint64_t bytes = 0;
  for (const TensorEntry& entry : entries) {
    if (!entry.ignored && StageReads(stage, config, entry.name)) bytes += entry.bytes;
  }
  return bytes;
}

std::string DescribePartition(std::span<const StageLayers> stages) {
  std::string text;
  for (const StageLayers& stage : stages) text += fmt::format("{}{}", text.empty() ? "" : ",", stage.count());
  return text;
}

}  // namespace paceline
