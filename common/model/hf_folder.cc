#include "common/model/hf_folder.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/model/printable.h"
#include "common/model/strict_json.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kConfigBytesMax = 16u << 20;
constexpr size_t kIndexBytesMax = 100'000'000;

StatusOr<std::shared_ptr<const json>> ReadObject(const std::string& path, bool required) {
  auto parsed = ReadJsonFile(path, kConfigBytesMax);
  if (!parsed.ok() && parsed.status().code() == absl::StatusCode::kNotFound && !required) {
    return std::make_shared<const json>(json::object());
  }
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return InvalidArgumentError("{}: want a JSON object", path);
  return std::make_shared<const json>(*std::move(parsed));
}

// File name -> names of the tensors that the index puts there (value: seen in the file).
using WeightMap = std::map<std::string, std::map<std::string, bool>>;

StatusOr<WeightMap> ReadIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const json index, ReadJsonFile(path, kIndexBytesMax));
  const auto weight_map = index.find("weight_map");
  if (!index.is_object() || weight_map == index.end() || !weight_map->is_object() || weight_map->empty()) {
    return InvalidArgumentError("{}: want an object weight_map with one entry per tensor", path);
  }
  WeightMap files;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string())
      return InvalidArgumentError("{}: weight_map of {}: want a string", path, Printable(tensor));
    const auto& name = file.get_ref<const std::string&>();
    // Only names inside the folder: an index that came from elsewhere may not open other files of this
    // machine.
    if (name.find('/') != std::string::npos || !name.ends_with(".safetensors")) {
      return InvalidArgumentError("{}: weight_map of {}: want a .safetensors file of this folder, found {}",
                                  path, Printable(tensor), Printable(name));
    }
    files[name][tensor] = false;
  }
  return files;
}

// The file holds what the index says, no less and no more.
Status CompareWithIndex(const SafetensorsFile& file, std::map<std::string, bool>& listed) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const auto found = listed.find(tensor.name);
    if (found == listed.end()) {
      return InvalidArgumentError("{}: tensor {} is not in the index for this file", file.path(),
                                  Printable(tensor.name));
    }
    found->second = true;
  }
  for (const auto& [name, seen] : listed) {
    if (!seen)
      return InvalidArgumentError("{}: tensor {} of the index is missing", file.path(), Printable(name));
  }
  return OkStatus();
}

}  // namespace

StatusOr<HfFolder> HfFolder::Open(const std::string& dir) {
  HfFolder folder;
  folder.path_ = dir;
  ASSIGN_OR_RETURN(folder.config_, ReadObject(dir + "/config.json", true));
  ASSIGN_OR_RETURN(folder.generation_config_, ReadObject(dir + "/generation_config.json", false));
  ASSIGN_OR_RETURN(folder.tokenizer_config_, ReadObject(dir + "/tokenizer_config.json", false));
  return folder;
}

std::string HfFolder::Name() const {
  const fs::path path = fs::path(path_).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

StatusOr<HfWeights> HfWeights::Open(const std::string& dir) {
  HfWeights weights;
  const std::string single = dir + "/model.safetensors";
  const std::string index = dir + "/model.safetensors.index.json";
  std::error_code error;
  if (fs::exists(single, error)) {
    ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(single));
    weights.files_.push_back(std::move(file));
    return weights;
  }
  if (!fs::exists(index, error)) {
    return NotFoundError(
        "{}: neither model.safetensors nor model.safetensors.index.json; other weight files are not read",
        dir);
  }
  ASSIGN_OR_RETURN(WeightMap files, ReadIndex(index));
  for (auto& [name, tensors] : files) {
    auto file = SafetensorsFile::Open(dir + "/" + name);
    if (!file.ok()) return Annotate(file.status(), index + " names it");
    RETURN_IF_ERROR(CompareWithIndex(*file, tensors));
    weights.files_.push_back(*std::move(file));
  }
  return weights;
}

}  // namespace paceline
