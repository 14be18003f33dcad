#include "common/base/status.h"

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "common/base/checked_size.h"

namespace paceline {
namespace {

StatusOr<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgumentError("want an even number, found {}", value);
  return value / 2;
}

StatusOr<int> Quarter(int value) {
  ASSIGN_OR_RETURN(const int half, Half(value));
  ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(Status, MacrosPassTheFirstErrorOn) {
  EXPECT_EQ(Quarter(8).value(), 2);
  EXPECT_EQ(Message(Quarter(6).status()), "want an even number, found 3");
}

TEST(Status, AnnotateKeepsTheCode) {
  const Status status = Annotate(NotFoundError("no file"), "stage 1");

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Message(status), "stage 1: no file");
}

TEST(CheckedSize, OverflowIsAnError) {
  EXPECT_EQ(CheckedMul(1u << 20, 1u << 20).value(), 1ull << 40);
  EXPECT_FALSE(CheckedMul(1ull << 33, 1ull << 33).ok());
  EXPECT_FALSE(CheckedAdd(~0ull, 1).ok());
}

TEST(CheckDeathTest, NamesTheRule) { EXPECT_DEATH(CHECK_GE(1, 2) << "P8", "P8"); }

}  // namespace
}  // namespace paceline
