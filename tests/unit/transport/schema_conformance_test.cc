// The schemas only grow: flatc compares each with its last released copy in schemas/baseline/.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "tests/support/shared_data.h"

namespace paceline::testing {
namespace {

bool Conforms(const std::string& schema_dir, const std::string& name) {
  const std::string baseline = SourceDir() + "/schemas/baseline";
  const std::string command = std::string(PACELINE_FLATC) + " --conform " + baseline + "/" + name +
                              " --conform-includes " + baseline + " -I " + schema_dir + " " + schema_dir +
                              "/" + name + " >/dev/null 2>&1";
  return std::system(command.c_str()) == 0;
}

TEST(SchemaConformance, EverySchemaOnlyAppendsToItsBaseline) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SourceDir() + "/schemas/baseline")) {
    const std::string name = entry.path().filename();
    EXPECT_TRUE(Conforms(SourceDir() + "/schemas", name))
        << name << ": run flatc --conform to see which field";
    ++count;
  }
  EXPECT_EQ(count, 6);
}

TEST(SchemaConformance, AChangedFieldIsCaught) {
  std::string pattern = std::filesystem::temp_directory_path() / "paceline-schemas-XXXXXX";
  const std::filesystem::path dir = ::mkdtemp(pattern.data());
  std::string text = ReadFileOrDie(SourceDir() + "/schemas/step.fbs");
  const std::string field = "draft_len_max:uint (id: 6)";
  ASSERT_NE(text.find(field), std::string::npos);
  text.replace(text.find(field), field.size(), "draft_len_max:ulong (id: 6)");
  std::filesystem::copy_file(SourceDir() + "/schemas/common.fbs", dir / "common.fbs");
  std::ofstream(dir / "step.fbs") << text;

  EXPECT_FALSE(Conforms(dir, "step.fbs"));

  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace paceline::testing
