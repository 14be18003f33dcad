// PayloadStore: the activations of frames that are here, by the handle that the core names them with.
//
// Owned by the shell; filled by the inbound edge and the executor, emptied by the outbound edge and
// FreePayload. Threading: any thread. Limits: what is outstanding is bounded by the coordinator's slots and
// launch window, and by the receiver's ring before that.
//
//   PayloadHandle handle = store.Put(std::move(rows));
//   std::shared_ptr<const AlignedBuffer> rows = store.Get(handle);   // null: no such payload
//   store.Free(handle);
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "common/tensor/aligned_buffer.h"
#include "stage_worker/core/executor.h"

namespace paceline {

class PayloadStore {
 public:
  PayloadHandle Put(AlignedBuffer rows) {
    std::lock_guard lock(mutex_);
    next_ = next_.Next();
    payloads_[next_] = std::make_shared<const AlignedBuffer>(std::move(rows));
    return next_;
  }
  std::shared_ptr<const AlignedBuffer> Get(PayloadHandle handle) const {
    std::lock_guard lock(mutex_);
    const auto it = payloads_.find(handle);
    return it == payloads_.end() ? nullptr : it->second;
  }
  void Free(PayloadHandle handle) {
    std::lock_guard lock(mutex_);
    payloads_.erase(handle);
  }
  void Clear() {
    std::lock_guard lock(mutex_);
    payloads_.clear();
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return payloads_.size();
  }

 private:
  mutable std::mutex mutex_;
  PayloadHandle next_;
  std::map<PayloadHandle, std::shared_ptr<const AlignedBuffer>> payloads_;
};

}  // namespace paceline
