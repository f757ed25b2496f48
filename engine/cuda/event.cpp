#include "troupe/engine/cuda/event.hpp"

#include <c10/cuda/CUDAGuard.h>

#include "troupe/engine/cuda/check.hpp"

namespace troupe {

event_pool::~event_pool() {
  for (auto* event : idle_)
    cudaEventDestroy(event);
}

cudaEvent_t event_pool::take() {
  {
    const std::lock_guard lock{mutex_};
    if (!idle_.empty()) {
      auto* event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  const c10::cuda::CUDAGuard device{static_cast<c10::DeviceIndex>(device_)};
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "making a CUDA event");
  return event;
}

void event_pool::give_back(cudaEvent_t event) {
  const std::lock_guard lock{mutex_};
  idle_.push_back(event);
}

bool cuda_event::reached() const {
  if (reached_)
    return true;
  const auto state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // keeps LibTorch from seeing the error
    return false;
  }
  check(state, "work of the device");
  reached_ = true;
  return true;
}

void cuda_event::wait() const {
  check(cudaEventSynchronize(event_), "work of the device");
  reached_ = true;
}

double cuda_event::seconds_since(const device_event& earlier) const {
  float milliseconds = 0;
  auto* begin = static_cast<const cuda_event&>(earlier).get();
  check(cudaEventElapsedTime(&milliseconds, begin, event_),
        "the time between two CUDA events");
  return static_cast<double>(milliseconds) / 1e3;
}

}  // namespace troupe
