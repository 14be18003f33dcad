#include "tests/support/local_generator.h"

#include <algorithm>
#include <utility>

namespace paceline::testing {

StatusOr<std::unique_ptr<LocalGenerator>> LocalGenerator::Open(const std::string& model,
                                                               const LocalModelOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<WeightSource> source, OpenModel(model));
  return Make(std::move(source), options);
}

StatusOr<std::unique_ptr<LocalGenerator>> LocalGenerator::Make(std::unique_ptr<WeightSource> source,
                                                               const LocalModelOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<LocalModel> model, LocalModel::Make(*source, options));
  return std::unique_ptr<LocalGenerator>(new LocalGenerator(std::move(source), std::move(model)));
}

StatusOr<Generated> LocalGenerator::Generate(std::span<const TokenId> prompt, const SamplingParams& params,
                                             uint32_t chunk) {
  const uint32_t vocab = model_->vocab_size();
  ASSIGN_OR_RETURN(SequenceSampler sampler, SequenceSampler::Create({vocab, vocab}, params, prompt,
                                                                    static_cast<uint32_t>(prompt.size())));
  std::vector<TokenId> next(prompt.begin(), prompt.end());
  Position start = 0;
  Generated out;
  while (out.ids.size() < params.max_tokens && start + next.size() <= model_->positions_max()) {
    ASSIGN_OR_RETURN(const std::vector<float> logits,
                     model_->Run(next, start, {.chunk = chunk, .last_only = true}));
    start += static_cast<Position>(next.size());
    ASSIGN_OR_RETURN(DrawnToken drawn, sampler.Draw(logits, start, scratch_));
    sampler.Append(drawn.id);
    out.ids.push_back(drawn.id);
    if (drawn.has_logprobs()) out.logprobs.push_back(std::move(drawn.logprobs));
    const auto& stops = params.stop_token_ids;
    const bool stopped = std::find(stops.begin(), stops.end(), drawn.id) != stops.end();
    if (stopped && out.ids.size() >= params.min_tokens) break;
    next.assign(1, drawn.id);
  }
  return out;
}

}  // namespace paceline::testing
