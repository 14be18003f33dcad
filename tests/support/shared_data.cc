#include "tests/support/shared_data.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/check.h"

namespace paceline::testing {
namespace {

std::string IfExists(const std::string& path) { return std::filesystem::exists(path) ? path : ""; }

}  // namespace

std::string SourceDir() {
  const char* dir = std::getenv("PACELINE_SOURCE_DIR");
  return dir != nullptr ? dir : std::filesystem::current_path().string();
}

std::string SharedDir() {
  if (const char* dir = std::getenv("PACELINE_SHARED")) return IfExists(dir);
  return IfExists(SourceDir() + "/../shared");
}

std::string RealModelPath() {
  if (const char* path = std::getenv("PACELINE_TEST_MODEL")) return IfExists(path);
  return IfExists(SourceDir() + "/models/SmolLM2-135M-Instruct.Q4_1.gguf");
}

std::string ReadFileOrDie(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  CHECK(in.good()) << "cannot read " << path;
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace paceline::testing
