#include "common/config/flags.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

TEST(Flags, NamesAreUniqueAndDashed) {
  std::set<std::string_view> names;
  for (const FlagSpec& flag : AllFlags()) {
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_EQ(flag.name.find('_'), std::string_view::npos) << flag.name;
  }
}

TEST(Flags, UnderscoresEqualDashes) { EXPECT_EQ(FindFlag("max_model_len"), FindFlag("max-model-len")); }

TEST(Flags, HaveAnEnvironmentTwin) { EXPECT_EQ(EnvName("max-model-len"), "PACELINE_MAX_MODEL_LEN"); }

TEST(Flags, NearestNameIsOfferedOnlyWhenNear) {
  EXPECT_EQ(NearestFlag("max-model-length"), "max-model-len");
  EXPECT_EQ(NearestFlag("pipeline-paralel-size"), "pipeline-parallel-size");
  EXPECT_EQ(NearestFlag("zzzzzzzz"), "");
}

TEST(Flags, ForeignNamesPointHome) {
  EXPECT_EQ(ForeignFlagHint("tp_size"), "--tensor-parallel-size");
  EXPECT_EQ(ForeignFlagHint("md"), "--speculative-config.model");
}

TEST(Flags, SizesTakeSuffixes) {
  EXPECT_EQ(ParseSize("32k").value(), 32000);
  EXPECT_EQ(ParseSize("32K").value(), 32768);
  EXPECT_EQ(ParseSize("-1").value(), -1);
  EXPECT_FALSE(ParseSize("32x").ok());
  EXPECT_FALSE(ParseSize("").ok());
  EXPECT_FALSE(ParseSize("9223372036854775807K").ok());
}

}  // namespace
}  // namespace paceline
