#include "deploy/cli/child_process.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <csignal>

namespace paceline {
namespace {

bool EndsWithin(const ChildProcess& child, int milliseconds) {
  pollfd ended{child.exit_fd(), POLLIN, 0};
  return poll(&ended, 1, milliseconds) == 1;
}

TEST(ChildProcess, TellsItsExitCode) {
  auto child = ChildProcess::Start({"/bin/sh", "-c", "exit 78"});
  ASSERT_TRUE(child.ok()) << child.status();

  ASSERT_TRUE(EndsWithin(*child, 5000));
  const ExitState state = child->Reap();
  EXPECT_EQ(state.exit_code, 78);
  EXPECT_EQ(state.Describe(), "exit code 78");
}

TEST(ChildProcess, TellsTheSignalThatEndedIt) {
  auto child = ChildProcess::Start({"/bin/sleep", "60"});
  ASSERT_TRUE(child.ok()) << child.status();
  ASSERT_FALSE(EndsWithin(*child, 20));

  child->Signal(SIGKILL);

  ASSERT_TRUE(EndsWithin(*child, 5000));
  const ExitState state = child->Reap();
  EXPECT_EQ(state.signal, SIGKILL);
  EXPECT_EQ(state.Describe(), "signal 9 (Killed)");
}

TEST(ChildProcess, AMissingProgramIsAnErrorByName) {
  const auto child = ChildProcess::Start({"/nowhere/program"});

  ASSERT_FALSE(child.ok());
  EXPECT_NE(Message(child.status()).find("/nowhere/program"), std::string_view::npos);
}

}  // namespace
}  // namespace paceline
