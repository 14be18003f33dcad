// A queue between two threads with a capacity and an answer to "full".
//
// Threading: any number of producers and consumers. Limits: `capacity` items; TryPush answers false when
// full, Push waits until its deadline. Failure: after Close, pushes answer false and pops drain what is left.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "common/base/clock.h"

namespace paceline {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  bool TryPush(T item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  bool Push(T item, Instant deadline) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait_until(lock, deadline, [this] { return closed_ || items_.size() < capacity_; });
      if (closed_ || items_.size() >= capacity_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  // Empty: deadline passed, or closed and drained.
  std::optional<T> Pop(Instant deadline) {
    std::optional<T> out;
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait_until(lock, deadline, [this] { return closed_ || !items_.empty(); });
      if (items_.empty()) return std::nullopt;
      out = std::move(items_.front());
      items_.pop_front();
    }
    not_full_.notify_one();
    return out;
  }

  std::optional<T> TryPop() { return Pop(Instant::min()); }

  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  bool closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  const size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable not_empty_;
  std::condition_variable not_full_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace paceline
