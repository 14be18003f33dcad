// A loop on a thread of its own, for tests whose sockets must live on one; and waiting for what will happen
// there.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

#include "common/actor/event_loop.h"
#include "common/transport/fabric.h"

namespace paceline::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "paceline-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Values that one thread appends and another looks at.
template <typename T>
class Seen {
 public:
  void Add(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
  }
  std::vector<T> All() const {
    const std::lock_guard lock(mutex_);
    return values_;
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<T> values_;
};

// True as soon as `done` is; false after ten seconds.
template <typename Done>
bool Eventually(Done done) {
  const Instant deadline = MonotonicNow() + 10s;
  while (!done()) {
    if (MonotonicNow() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// Sockets of type T made and destroyed on a loop's thread.
template <typename T>
class OnLoop {
 public:
  template <typename Make>
  OnLoop(LoopThread& thread, Make make) : thread_(thread) {
    thread_.RunAndWait([&] {
      auto made = make();
      EXPECT_TRUE(made.ok()) << made.status();
      if (made.ok()) value_ = std::move(made).value();
    });
  }
  ~OnLoop() {
    thread_.RunAndWait([&] { value_.reset(); });
  }
  // Runs fn(socket) there.
  template <typename Fn>
  void Do(Fn fn) {
    thread_.RunAndWait([&] { fn(*value_); });
  }

 private:
  LoopThread& thread_;
  std::unique_ptr<T> value_;
};

}  // namespace paceline::testing
