#pragma once

#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "troupe/engine/device/accelerator.hpp"

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

/// The streams and events of one device. Streams are reused, never destroyed,
/// as LibTorch's allocator may still record events on one after its last user
/// is gone. Lives as long as the process.
class stream_pool {
 public:
  explicit stream_pool(int device)
    : device_{device}, events_{std::make_shared<event_pool>(device)} {}

  /// The shared pool of a device.
  static stream_pool& of_device(int device);

  cudaStream_t take(stream_priority priority);
  void give_back(cudaStream_t stream, stream_priority priority);

  int device() const { return device_; }
  const std::shared_ptr<event_pool>& events() const { return events_; }

 private:
  std::vector<cudaStream_t>& idle(stream_priority priority) {
    return idle_[priority == stream_priority::high ? 1 : 0];
  }

  const int device_;
  const std::shared_ptr<event_pool> events_;
  std::mutex mutex_;
  std::vector<cudaStream_t> idle_[2];
};

class cuda_stream final : public device_stream {
 public:
  cuda_stream(stream_pool& pool, stream_priority priority);
  ~cuda_stream() override { pool_.give_back(stream_.stream(), priority_); }
  cuda_stream(const cuda_stream&) = delete;
  cuda_stream& operator=(const cuda_stream&) = delete;

  c10::Device device() const override { return stream_.device(); }
  std::unique_ptr<stream_scope> enter() override;
  event_handle record() override;
  void wait_for(const device_event& event) override;
  void uses(const at::Tensor& tensor) override;
  void drain() override;

  cudaStream_t get() const { return stream_.stream(); }

 private:
  stream_pool& pool_;
  const stream_priority priority_;
  const c10::cuda::CUDAStream stream_;
};

}  // namespace troupe
