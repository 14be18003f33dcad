// Where tests find reference data: models, prompts and vectors that are not part of the repository.
//
// A test whose data is absent skips and says which folder it looked for.
#pragma once

#include <string>

namespace paceline::testing {

// Root of the repository (env PACELINE_SOURCE_DIR, set by ctest; else the current directory).
std::string SourceDir();

// The folder of shared test data (env PACELINE_SHARED, else `../shared` beside the repository); empty if absent.
std::string SharedDir();

// The real model of the tests (env PACELINE_TEST_MODEL, else models/SmolLM2-135M-Instruct.Q4_1.gguf below the
// repository, where deploy/fetch-model lays it); empty if absent.
std::string RealModelPath();

std::string ReadFileOrDie(const std::string& path);

}  // namespace paceline::testing
