#pragma once

#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <mutex>
#include <vector>

#include "troupe/engine/cuda/event.hpp"
#include "troupe/engine/device/accelerator.hpp"

namespace troupe {

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
