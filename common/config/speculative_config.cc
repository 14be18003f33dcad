#include "common/config/speculative_config.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"

namespace paceline {
namespace {

using nlohmann::json;

struct KeySpec {
  std::string_view name;
  bool ngram = false;
  bool draft_model = false;
};

constexpr KeySpec kKeys[] = {
    {"method", true, true},
    {"num_speculative_tokens", true, true},
    {"rejection_sample_method", true, true},
    {"parallel_drafting", true, true},
    {"disable_padded_drafter_batch", true, true},
    {"prompt_lookup_min", true, false},
    {"prompt_lookup_max", true, false},
    {"model", false, true},
    {"draft_tensor_parallel_size", false, true},
    {"draft_pipeline_parallel_size", false, true},
    {"draft_sample_method", false, true},
    {"max_model_len", false, true},
    {"quantization", false, true},
    {"enforce_eager", false, true},
};

struct RefusedName {
  std::string_view name;
  std::string_view advice;
};

constexpr RefusedName kRefusedKeys[] = {
    {"tensor_parallel_size", "use draft_tensor_parallel_size"},
    {"pipeline_parallel_size", "the draft is one stage: leave it out, or draft_pipeline_parallel_size: 1"},
    {"disable_by_batch_size", "use num_speculative_tokens_per_batch_size"},
};

constexpr RefusedName kRefusedMethods[] = {
    {"ngram_gpu", "use ngram"},
    {"dflash", "it is not supported"},
    {"dspark", "it is not supported"},
    {"extract_hidden_states", "it is not a drafter"},
    {"custom_class", "no code is loaded by name"},
    {"suffix", "this build does not have it yet"},
    {"medusa", "this build does not have it yet"},
    {"mlp_speculator", "this build does not have it yet"},
    {"eagle", "this build does not have it yet"},
    {"eagle3", "this build does not have it yet"},
    {"mtp", "this build does not have it yet"},
};

std::string KeysOf(DraftMethod method) {
  std::string out;
  for (const KeySpec& key : kKeys) {
    if (method == DraftMethod::kNgram ? key.ngram : key.draft_model) {
      if (!out.empty()) out += ", ";
      out += key.name;
    }
  }
  return out;
}

StatusOr<DraftMethod> MethodFrom(const json& object) {
  if (!object.contains("method")) {
    if (object.contains("model")) return DraftMethod::kDraftModel;
    return InvalidArgumentError(
        "speculative-config: want `method` (ngram, draft_model) or `model`, found neither");
  }
  const json& value = object["method"];
  if (!value.is_string())
    return InvalidArgumentError("speculative-config.method: want a string, found {}", value.dump());
  const std::string name = value.get<std::string>();
  if (name == "ngram") return DraftMethod::kNgram;
  if (name == "draft_model") return DraftMethod::kDraftModel;
  for (const RefusedName& refused : kRefusedMethods) {
    if (name == refused.name)
      return InvalidArgumentError("speculative-config.method '{}': {}", name, refused.advice);
  }
  return InvalidArgumentError("speculative-config.method '{}' is unknown: want ngram or draft_model", name);
}

Status CheckKeys(const json& object, DraftMethod method) {
  for (const auto& [key, value] : object.items()) {
    for (const RefusedName& refused : kRefusedKeys) {
      if (key == refused.name) return InvalidArgumentError("speculative-config.{}: {}", key, refused.advice);
    }
    const auto* known =
        std::find_if(std::begin(kKeys), std::end(kKeys), [&](const KeySpec& k) { return k.name == key; });
    if (known == std::end(kKeys) || !(method == DraftMethod::kNgram ? known->ngram : known->draft_model)) {
      return InvalidArgumentError("speculative-config.{}: method {} has no such key; it has {}", key,
                                  Name(method), KeysOf(method));
    }
  }
  return OkStatus();
}

// The integer at `key` within [low, high], or `fallback` when absent.
StatusOr<uint32_t> IntegerAt(const json& object, std::string_view key, uint32_t low, uint32_t high,
                             uint32_t fallback) {
  const auto it = object.find(std::string(key));
  if (it == object.end()) return fallback;
  if (!it->is_number_integer() || it->get<int64_t>() < low || it->get<int64_t>() > high) {
    return InvalidArgumentError("speculative-config.{}: want an integer in {}..{}, found {}", key, low, high,
                                it->dump());
  }
  return it->get<uint32_t>();
}

// `key` may only hold `only`: the one value this build honours.
Status OnlyValue(const json& object, std::string_view key, const json& only, std::string_view reason) {
  const auto it = object.find(std::string(key));
  if (it == object.end() || *it == only) return OkStatus();
  return InvalidArgumentError("speculative-config.{}: only {} is possible, found {}: {}", key, only.dump(),
                              it->dump(), reason);
}

Status ReadNgram(const json& object, SpeculativeConfig& out) {
  ASSIGN_OR_RETURN(out.prompt_lookup_min, IntegerAt(object, "prompt_lookup_min", 1, 64, 0));
  ASSIGN_OR_RETURN(out.prompt_lookup_max, IntegerAt(object, "prompt_lookup_max", 1, 64, 0));
  if (out.prompt_lookup_min == 0 && out.prompt_lookup_max == 0)
    out.prompt_lookup_min = out.prompt_lookup_max = 5;
  if (out.prompt_lookup_min == 0) out.prompt_lookup_min = out.prompt_lookup_max;
  if (out.prompt_lookup_max == 0) out.prompt_lookup_max = out.prompt_lookup_min;
  if (out.prompt_lookup_min > out.prompt_lookup_max) {
    return InvalidArgumentError(
        "speculative-config: prompt_lookup_min {} is greater than prompt_lookup_max {}",
        out.prompt_lookup_min, out.prompt_lookup_max);
  }
  return OkStatus();
}

Status ReadDraftModel(const json& object, SpeculativeConfig& out) {
  const auto model = object.find("model");
  if (model == object.end() || !model->is_string() || model->get<std::string>().empty()) {
    return InvalidArgumentError(
        "speculative-config: method draft_model wants `model`, a folder or a .gguf file");
  }
  out.model = model->get<std::string>();
  RETURN_IF_ERROR(OnlyValue(object, "draft_tensor_parallel_size", 1, "this build splits no drafts"));
  RETURN_IF_ERROR(OnlyValue(object, "draft_pipeline_parallel_size", 1, "the draft is one stage"));
  ASSIGN_OR_RETURN(out.max_model_len, IntegerAt(object, "max_model_len", 1, 1u << 30, 0));
  if (const auto it = object.find("draft_sample_method"); it != object.end()) {
    if (*it == "greedy")
      out.sampling = DraftSampling::kGreedy;
    else if (*it == "probabilistic")
      out.sampling = DraftSampling::kProbabilistic;
    else
      return InvalidArgumentError(
          "speculative-config.draft_sample_method: want greedy or probabilistic, found {}", it->dump());
  }
  return OkStatus();
}

}  // namespace

std::string_view Name(DraftMethod method) {
  switch (method) {
    case DraftMethod::kNone:
      return "none";
    case DraftMethod::kNgram:
      return "ngram";
    case DraftMethod::kDraftModel:
      return "draft_model";
  }
  return "none";
}

StatusOr<SpeculativeConfig> ParseSpeculativeConfig(const json& object) {
  SpeculativeConfig out;
  if (object.empty()) return out;
  ASSIGN_OR_RETURN(out.method, MethodFrom(object));
  RETURN_IF_ERROR(CheckKeys(object, out.method));
  RETURN_IF_ERROR(OnlyValue(object, "rejection_sample_method", "standard",
                            "a draft is accepted when it equals the target's own draw"));
  RETURN_IF_ERROR(OnlyValue(object, "parallel_drafting", false, "it is not supported"));
  RETURN_IF_ERROR(OnlyValue(object, "disable_padded_drafter_batch", false, "there is no padding here"));
  ASSIGN_OR_RETURN(out.num_speculative_tokens, IntegerAt(object, "num_speculative_tokens", 1, 128, 0));
  if (out.num_speculative_tokens == 0) {
    return InvalidArgumentError("speculative-config: method {} wants num_speculative_tokens, 1..128",
                                Name(out.method));
  }
  RETURN_IF_ERROR(out.method == DraftMethod::kNgram ? ReadNgram(object, out) : ReadDraftModel(object, out));
  return out;
}

}  // namespace paceline
