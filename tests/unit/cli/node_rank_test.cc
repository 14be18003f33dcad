#include "deploy/cli/node_rank.h"

#include <gtest/gtest.h>

#include <map>

namespace paceline {
namespace {

StatusOr<NodeRank> Resolve(const std::string& setting, uint32_t num_nodes, const std::string& host,
                           std::map<std::string, std::string> environment = {}) {
  return ResolveNodeRank(setting, num_nodes, host, [&](const char* name) -> const char* {
    const auto it = environment.find(name);
    return it == environment.end() ? nullptr : it->second.c_str();
  });
}

TEST(NodeRank, ANumberIsTakenAsItIs) {
  EXPECT_EQ(Resolve("2", 4, "x")->rank, 2u);
  EXPECT_FALSE(Resolve("4", 4, "x").ok());
  EXPECT_FALSE(Resolve("-1", 4, "x").ok());
}

TEST(NodeRank, TheFirstSourceThatIsSetWins) {
  const auto rank = Resolve("auto", 4, "web-3", {{"SLURM_PROCID", "2"}, {"POD_INDEX", "1"}});

  ASSERT_TRUE(rank.ok()) << rank.status();
  EXPECT_EQ(rank->rank, 1u);
  EXPECT_EQ(rank->source, "POD_INDEX");
}

TEST(NodeRank, TorchrunsRankCountsOnlyWithAMatchingWorld) {
  EXPECT_EQ(Resolve("auto", 2, "web-1", {{"RANK", "0"}, {"WORLD_SIZE", "2"}})->rank, 0u);
  EXPECT_EQ(Resolve("auto", 2, "web-1", {{"RANK", "0"}, {"WORLD_SIZE", "8"}})->rank, 1u);
}

TEST(NodeRank, HostNamesThatEndInTwoNumbersAreAmbiguous) {
  EXPECT_EQ(Resolve("auto", 8, "paceline-7")->rank, 7u);
  EXPECT_FALSE(Resolve("auto", 8, "paceline-0-1").ok());
  EXPECT_FALSE(Resolve("auto", 8, "laptop").ok());
}

TEST(NodeRank, OneNodeIsZeroWhateverItsName) { EXPECT_EQ(Resolve("auto", 1, "laptop-9")->rank, 0u); }

}  // namespace
}  // namespace paceline
