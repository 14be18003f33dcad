#include <fmt/ranges.h>

#include "coordinator/membership/membership_core.h"

namespace paceline {
namespace {

template <typename T>
Status Differ(std::string_view field, const T& want, const T& found, std::string_view remedy) {
  return FailedPreconditionError("{}: this cluster has \"{}\", the worker has \"{}\"; {}", field, want, found,
                                 remedy);
}

Status CompareText(std::string_view field, const std::string& want, const std::string& found,
                   std::string_view remedy) {
  if (want.empty() || want == found) return OkStatus();
  return Differ(field, want, found, remedy);
}

Status CompareNumber(std::string_view field, uint32_t want, uint32_t found, std::string_view remedy) {
  if (want == found) return OkStatus();
  return Differ(field, want, found, remedy);
}

}  // namespace

Status CompareFingerprints(const Fingerprint& want, const Fingerprint& found, Role role) {
  constexpr std::string_view kBuild = "start all processes from one build";
  constexpr std::string_view kModel = "give every process the same model files";
  constexpr std::string_view kOptions = "start all processes with the same options";
  RETURN_IF_ERROR(CompareNumber("protocol_major", want.protocol_major, found.protocol_major, kBuild));
  RETURN_IF_ERROR(CompareText("build_id", want.build_id, found.build_id, kBuild));
  RETURN_IF_ERROR(CompareText("tokenizer_digest", want.tokenizer_digest, found.tokenizer_digest,
                              "target and draft need one vocabulary"));
  if (role != Role::kStage) return OkStatus();
  RETURN_IF_ERROR(CompareText("model_digest", want.model_digest, found.model_digest, kModel));
  RETURN_IF_ERROR(CompareText("dtype", want.dtype, found.dtype, kOptions));
  RETURN_IF_ERROR(CompareText("numerics_class", want.numerics_class, found.numerics_class,
                              "use machines of one instruction-set class, or pin a lower one for all"));
  RETURN_IF_ERROR(CompareNumber("pipeline_size", want.pipeline_size, found.pipeline_size, kOptions));
  RETURN_IF_ERROR(CompareNumber("tensor_size", want.tensor_size, found.tensor_size, kOptions));
  if (want.num_layers != 0) {
    RETURN_IF_ERROR(CompareNumber("num_layers", want.num_layers, found.num_layers, kModel));
  }
  if (want.layers_per_stage.empty() || want.layers_per_stage == found.layers_per_stage) return OkStatus();
  return Differ("layers_per_stage", fmt::format("{}", fmt::join(want.layers_per_stage, ",")),
                fmt::format("{}", fmt::join(found.layers_per_stage, ",")), kOptions);
}

}  // namespace paceline
