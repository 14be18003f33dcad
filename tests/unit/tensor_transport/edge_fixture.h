// Edges of every maker for tests: a folder that vanishes, a connected pair, messages whose bytes say who they
// are.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/tensor_transport/tensor_channel.h"

namespace paceline::testing {

class TempDir {
 public:
  TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "paceline-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  bool IsEmpty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_;
};

enum class Maker { kShm, kTcp, kInProcess };
inline std::string NameOf(Maker maker) {
  return maker == Maker::kShm ? "Shm" : maker == Maker::kTcp ? "Tcp" : "InProcess";
}

inline Instant In(Duration delay) { return MonotonicNow() + delay; }
inline constexpr EdgeId kEdge{.coordinator_nonce = 77, .generation = 3, .from_stage = 0, .to_stage = 1};

struct Edge {
  std::unique_ptr<TensorListener> listener;  // null in process
  std::unique_ptr<TensorSender> sender;
  std::unique_ptr<TensorReceiver> receiver;
};

inline std::string AddressFor(Maker maker, const TempDir& dir, const std::string& name = "edge") {
  return maker == Maker::kShm ? "unix:" + dir.File(name) : "tcp:127.0.0.1:0";
}

inline Edge MakeEdge(Maker maker, const TempDir& dir, const TensorLimits& limits,
                     const std::string& name = "edge") {
  Edge edge;
  if (maker == Maker::kInProcess) {
    std::tie(edge.sender, edge.receiver) = MakeInProcessTensorPair(limits);
    return edge;
  }
  auto listener = TensorListener::Listen({.address = AddressFor(maker, dir, name), .limits = limits});
  EXPECT_TRUE(listener.ok()) << listener.status();
  edge.listener = std::move(listener).value();
  std::thread connector([&] {
    auto sender = ConnectTensor(edge.listener->address(), kEdge, In(10s));
    EXPECT_TRUE(sender.ok()) << sender.status();
    if (sender.ok()) edge.sender = std::move(sender).value();
  });
  auto receiver = edge.listener->Accept(kEdge, In(10s));
  connector.join();
  EXPECT_TRUE(receiver.ok()) << receiver.status();
  edge.receiver = std::move(receiver).value();
  return edge;
}

// Bytes that no other (index, size) has in the same places.
inline std::vector<std::byte> Pattern(uint64_t index, size_t size) {
  std::vector<std::byte> bytes(size);
  uint64_t state = index * 0x9E3779B97F4A7C15ull + size;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

inline std::vector<std::byte> Bytes(const AlignedBuffer& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

}  // namespace paceline::testing
