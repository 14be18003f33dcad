// LocalGenerator: ids from ids by one plain process, no drafts: the oracle of "the same tokens, always".
//
//   auto generator = *LocalGenerator::Open(model_path, {});
//   Generated got = *generator->Generate(prompt_ids, params);   // params.max_tokens ids, fewer at a stop id
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/decoder/sampler.h"
#include "common/model/weight_source.h"
#include "common/protocol/sampling_params.h"
#include "common/protocol/speculation.h"
#include "tests/support/local_model.h"

namespace paceline::testing {

struct Generated {
  std::vector<TokenId> ids;
  std::vector<TokenLogprobs> logprobs;  // empty, or one per id

  bool operator==(const Generated&) const = default;
};

class LocalGenerator {
 public:
  // `model` as OpenModel takes it.
  static StatusOr<std::unique_ptr<LocalGenerator>> Open(const std::string& model,
                                                        const LocalModelOptions& options);
  static StatusOr<std::unique_ptr<LocalGenerator>> Make(std::unique_ptr<WeightSource> source,
                                                        const LocalModelOptions& options);

  // Ends after max_tokens ids, at the context's end, or with an id of stop_token_ids (once min_tokens are
  // there).
  StatusOr<Generated> Generate(std::span<const TokenId> prompt, const SamplingParams& params,
                               uint32_t chunk = 128);

  const WeightSource& source() const { return *source_; }
  LocalModel& model() { return *model_; }

 private:
  LocalGenerator(std::unique_ptr<WeightSource> source, std::unique_ptr<LocalModel> model)
      : source_(std::move(source)), model_(std::move(model)) {}

  std::unique_ptr<WeightSource> source_;
  std::unique_ptr<LocalModel> model_;
  SamplerScratch scratch_;
};

}  // namespace paceline::testing
