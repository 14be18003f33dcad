#include "deploy/cli/output.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Output, SizesReadLikeSizes) {
  EXPECT_EQ(HumanBytes(512), "512 B");
  EXPECT_EQ(HumanBytes(96573849), "92.1 MiB");
  EXPECT_EQ(HumanBytes(uint64_t{3} << 30), "3.0 GiB");
}

TEST(Output, TakesItsFlagAndLeavesTheRest) {
  const auto args = TakeOutputFlag({"m.gguf", "--output", "json", "-pp", "2"});

  ASSERT_TRUE(args.ok());
  EXPECT_TRUE(args->json);
  EXPECT_EQ(args->rest, (std::vector<std::string>{"m.gguf", "-pp", "2"}));
}

TEST(Output, RefusesAnotherFormat) {
  EXPECT_FALSE(TakeOutputFlag({"--output", "xml"}).ok());
  EXPECT_FALSE(TakeOutputFlag({"--output"}).ok());
  EXPECT_FALSE(TakeOutputFlag({"--output=json"})->rest.size() > 0);
}

}  // namespace
}  // namespace paceline
