#include "common/transport/endpoint.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "tests/unit/transport/loop_fixture.h"

namespace paceline::testing {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

TEST(Endpoint, TheUrgentLaneFollowsFromTheControlLane) {
  EXPECT_EQ(UrgentEndpoint("ipc:///run/p/control").value(), "ipc:///run/p/control-urgent");
  EXPECT_EQ(UrgentEndpoint("tcp://10.0.0.1:29501").value(), "tcp://10.0.0.1:29502");
  EXPECT_EQ(UrgentEndpoint("tcp://[::1]:5").value(), "tcp://[::1]:6");
  for (const std::string bad :
       {"", "tcp://host", "tcp://host:x", "tcp://host:65535", "tcp://host:0", "udp://h:5"}) {
    EXPECT_EQ(UrgentEndpoint(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Endpoint, TcpIsWrittenWithPortsOrWithout) {
  EXPECT_EQ(TcpEndpoint("127.0.0.1"), "tcp://127.0.0.1:*");
  EXPECT_EQ(TcpEndpoint("127.0.0.1", {.first = 5, .last = 5}), "tcp://127.0.0.1:5");
  EXPECT_EQ(TcpEndpoint("127.0.0.1", {.first = 5, .last = 9}), "tcp://127.0.0.1:5-9");
  EXPECT_EQ(TcpEndpoint("::1"), "tcp://[::1]:*");
}

TEST(Endpoint, ATooLongSocketPathIsRefusedWithItsLength) {
  const auto endpoint = NewIpcEndpoint("/tmp/" + std::string(100, 'x'), "control");

  EXPECT_EQ(endpoint.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(endpoint.status())), HasSubstr("shorter runtime folder"));
}

TEST(RuntimeDir, IsMadeForUsAloneAndRefusedWhenOthersMayEnter) {
  TempDir dir;
  const std::string path = dir.path() + "/run";

  ASSERT_TRUE(PrepareRuntimeDir(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_TRUE(PrepareRuntimeDir(path).ok()) << "again";

  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_THAT(std::string(Message(PrepareRuntimeDir(path))), HasSubstr("mode 755"));
  EXPECT_FALSE(PrepareRuntimeDir(dir.path() + "/no/such/parent").ok());
}

}  // namespace
}  // namespace paceline::testing
