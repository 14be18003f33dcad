// MODEL of the command line turned into a place on disk: a .gguf file or a Hugging Face folder.
//
//   ASSIGN_OR_RETURN(ModelPath where, ResolveModel("HuggingFaceTB/SmolLM2-135M-Instruct"));
//
// Nothing is ever downloaded: a hub id is looked up in the cache under HF_HOME (default
// ~/.cache/huggingface), the snapshot that refs/main names. A path that exists wins over a hub id of the same
// spelling.
#pragma once

#include <string>

#include "common/base/status.h"

namespace paceline {

struct ModelPath {
  enum class Kind { kGguf, kFolder };
  Kind kind = Kind::kFolder;
  std::string path;
};

// NotFound says which places were tried.
StatusOr<ModelPath> ResolveModel(const std::string& model);

}  // namespace paceline
