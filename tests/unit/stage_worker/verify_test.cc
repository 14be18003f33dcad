#include "stage_worker/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Draws from a list, and remembers which rows were asked for.
class ScriptedDrawer : public RowDrawer {
 public:
  ScriptedDrawer(std::initializer_list<std::optional<TokenId>> draws) : draws_(draws) {}
  std::optional<TokenId> Draw(uint32_t row) override {
    rows.push_back(row);
    return draws_.at(rows.size() - 1);
  }
  std::vector<uint32_t> rows;

 private:
  std::vector<std::optional<TokenId>> draws_;
};

TEST(VerifyChain, APlainRowGivesItsDraw) {
  ScriptedDrawer drawer{7};
  const std::vector<TokenId> rows = {31};

  const ChainResult result = VerifyChain(rows, 0, drawer);

  EXPECT_THAT(result.ids, ElementsAre(7));
  EXPECT_EQ(result.num_matched, 0u);
}

TEST(VerifyChain, AllDraftsAcceptedGiveABonusId) {
  ScriptedDrawer drawer{7, 8, 9};
  const std::vector<TokenId> rows = {31, 7, 8};

  const ChainResult result = VerifyChain(rows, 0, drawer);

  EXPECT_THAT(result.ids, ElementsAre(7, 8, 9));
  EXPECT_EQ(result.num_matched, 2u);
}

TEST(VerifyChain, B035_NothingIsDrawnBehindARefusedDraft) {
  ScriptedDrawer drawer{7, 4};
  const std::vector<TokenId> rows = {31, 7, 7, 9, 9};

  const ChainResult result = VerifyChain(rows, 0, drawer);

  EXPECT_THAT(result.ids, ElementsAre(7, 4));
  EXPECT_EQ(result.num_matched, 1u);
  EXPECT_THAT(drawer.rows, ElementsAre(0, 1));
}

TEST(VerifyChain, KnownRowsBeforeTheJudgeAreNotDrawn) {
  ScriptedDrawer drawer{5, 6};
  const std::vector<TokenId> rows = {1, 2, 3, 5};

  const ChainResult result = VerifyChain(rows, 2, drawer);

  EXPECT_THAT(result.ids, ElementsAre(5, 6));
  EXPECT_THAT(drawer.rows, ElementsAre(2, 3));
}

TEST(VerifyChain, B176_ARowThatIsNotFiniteFailsTheChain) {
  ScriptedDrawer drawer{7, std::nullopt};
  const std::vector<TokenId> rows = {31, 7, 8};

  const ChainResult result = VerifyChain(rows, 0, drawer);

  EXPECT_TRUE(result.failed);
  EXPECT_EQ(result.num_matched, 1u);
}

}  // namespace
}  // namespace paceline
