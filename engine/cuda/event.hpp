#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/engine/device/stream.hpp"

namespace troupe {

/// Reusable CUDA events of one device: making one takes longer than recording
/// it. Any thread may call it.
class event_pool {
 public:
  explicit event_pool(int device) : device_{device} {}
  ~event_pool();
  event_pool(const event_pool&) = delete;
  event_pool& operator=(const event_pool&) = delete;

  cudaEvent_t take();
  void give_back(cudaEvent_t event);

 private:
  const int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> idle_;
};

class cuda_event final : public device_event {
 public:
  explicit cuda_event(std::shared_ptr<event_pool> pool)
    : pool_{std::move(pool)}, event_{pool_->take()} {}
  ~cuda_event() override { pool_->give_back(event_); }
  cuda_event(const cuda_event&) = delete;
  cuda_event& operator=(const cuda_event&) = delete;

  bool reached() const override;
  void wait() const override;
  double seconds_since(const device_event& earlier) const override;

  cudaEvent_t get() const { return event_; }

 private:
  const std::shared_ptr<event_pool> pool_;
  const cudaEvent_t event_;
  mutable std::atomic<bool> reached_{false};
};

}  // namespace troupe
