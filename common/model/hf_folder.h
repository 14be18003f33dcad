// A Hugging Face folder: its JSON files and its safetensors weights, found by the index and not by listing.
//
// HfFolder reads the small JSON files; HfWeights maps the weight files. Both are opened once, then immutable.
//
//   ASSIGN_OR_RETURN(HfFolder folder, HfFolder::Open(dir));
//   ASSIGN_OR_RETURN(HfWeights weights, HfWeights::Open(dir));
//
// Other files of the folder (consolidated.safetensors, original/, pickles) are never opened.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/safetensors_file.h"

namespace paceline {

class HfFolder {
 public:
  // NotFound without config.json; InvalidArgument when one of the files is damaged.
  static StatusOr<HfFolder> Open(const std::string& dir);

  const std::string& path() const { return path_; }
  // For people: the last part of the path.
  std::string Name() const;
  const nlohmann::json& config() const { return *config_; }
  // An empty object where the folder has no such file.
  const nlohmann::json& generation_config() const { return *generation_config_; }
  const nlohmann::json& tokenizer_config() const { return *tokenizer_config_; }

 private:
  HfFolder() = default;

  std::string path_;
  std::shared_ptr<const nlohmann::json> config_;
  std::shared_ptr<const nlohmann::json> generation_config_;
  std::shared_ptr<const nlohmann::json> tokenizer_config_;
};

class HfWeights {
 public:
  // model.safetensors, else the files of model.safetensors.index.json. Every file that the index names must
  // be there, hold exactly the tensors that it lists for it, and be whole.
  static StatusOr<HfWeights> Open(const std::string& dir);

  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  std::vector<SafetensorsFile> files_;
};

}  // namespace paceline
