#include "common/model/model_path.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "common/model/mapped_file.h"
#include "common/model/printable.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

std::string HfHome() {
  if (const char* home = std::getenv("HF_HOME"); home != nullptr && *home != '\0') return home;
  const char* user = std::getenv("HOME");
  return std::string(user != nullptr ? user : "") + "/.cache/huggingface";
}

// "name" or "org/name" of letters, digits, '.', '_', '-': what the hub allows, and no way out of the cache
// folder.
bool IsHubId(const std::string& model) {
  const auto allowed = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-' || c == '/';
  };
  return std::all_of(model.begin(), model.end(), allowed) &&
         std::count(model.begin(), model.end(), '/') <= 1 && model.find("..") == std::string::npos &&
         !model.starts_with('/') && !model.ends_with('/') && !model.empty();
}

StatusOr<ModelPath> ResolveHubId(const std::string& model) {
  std::string folder = "models--" + model;
  if (const size_t slash = folder.find('/'); slash != std::string::npos) folder.replace(slash, 1, "--");
  const std::string cache = HfHome() + "/hub/" + folder;
  constexpr size_t kRefBytesMax = 256;
  auto commit = ReadSmallFile(cache + "/refs/main", kRefBytesMax);
  if (!commit.ok()) {
    return NotFoundError(
        "{}: no such file or folder, and not in the hub cache ({}); nothing is downloaded at run time, fetch "
        "it first",
        Printable(model), cache);
  }
  std::erase_if(*commit, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  if (commit->empty() ||
      !std::all_of(commit->begin(), commit->end(), [](unsigned char c) { return std::isxdigit(c); })) {
    return InvalidArgumentError("{}/refs/main: want a commit id, found {}", cache, Printable(*commit));
  }
  const std::string snapshot = cache + "/snapshots/" + *commit;
  std::error_code error;
  if (!fs::is_directory(snapshot, error)) {
    return NotFoundError("{}: refs/main names {}, but {} is missing; fetch the model again", Printable(model),
                         *commit, snapshot);
  }
  return ModelPath{ModelPath::Kind::kFolder, snapshot};
}

}  // namespace

StatusOr<ModelPath> ResolveModel(const std::string& model) {
  std::error_code error;
  const fs::file_status status = fs::status(model, error);
  if (fs::is_directory(status)) return ModelPath{ModelPath::Kind::kFolder, model};
  if (fs::exists(status)) return ModelPath{ModelPath::Kind::kGguf, model};
  if (IsHubId(model) && !model.ends_with(".gguf")) return ResolveHubId(model);
  return NotFoundError(
      "{}: no such file or folder (a .gguf file, a folder with config.json, or a hub id in the cache)",
      Printable(model));
}

}  // namespace paceline
