#include "troupe/engine/cuda/stream.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <map>

#include "troupe/engine/cuda/check.hpp"

namespace troupe {
namespace {

/// A thread has a current context from its first call of CUDA's runtime on, but
/// LibTorch's guards make none if the device is the thread's own, and cuBLAS is
/// of the driver: LibTorch would warn, and set the context itself.
void make_context_current(int device) {
  static thread_local bool has_context = false;
  if (has_context)
    return;
  check(cudaSetDevice(device), "setting a thread's device");
  has_context = true;
}

class cuda_scope final : public stream_scope {
 public:
  explicit cuda_scope(c10::cuda::CUDAStream stream) : guard_{stream} {
    make_context_current(stream.device_index());
  }

 private:
  const c10::cuda::CUDAStreamGuard guard_;
};

}  // namespace

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
  const c10::cuda::CUDAGuard device{index_of(device_)};
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

stream_pool& stream_pool::of_device(int device) {
  static std::mutex mutex;
  static auto& pools = *new std::map<int, stream_pool>;
  const std::lock_guard lock{mutex};
  return pools.try_emplace(device, device).first->second;
}

cudaStream_t stream_pool::take(stream_priority priority) {
  {
    const std::lock_guard lock{mutex_};
    if (auto& streams = idle(priority); !streams.empty()) {
      auto* stream = streams.back();
      streams.pop_back();
      return stream;
    }
  }
  const c10::cuda::CUDAGuard device{index_of(device_)};
  int lowest = 0, highest = 0;
  check(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
        "asking for the priorities of streams");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(
          &stream, cudaStreamNonBlocking,
          priority == stream_priority::high ? highest : lowest),
        "making a CUDA stream");
  return stream;
}

void stream_pool::give_back(cudaStream_t stream, stream_priority priority) {
  const std::lock_guard lock{mutex_};
  idle(priority).push_back(stream);
}

cuda_stream::cuda_stream(stream_pool& pool, stream_priority priority)
  : pool_{pool},
    priority_{priority},
    stream_{c10::cuda::getStreamFromExternal(pool.take(priority),
                                             index_of(pool.device()))} {}

std::unique_ptr<stream_scope> cuda_stream::enter() {
  return std::make_unique<cuda_scope>(stream_);
}

event_handle cuda_stream::record() {
  auto event = std::make_shared<cuda_event>(pool_.events());
  check(cudaEventRecord(event->get(), get()), "recording a CUDA event");
  return event;
}

void cuda_stream::wait_for(const device_event& event) {
  check(cudaStreamWaitEvent(get(), static_cast<const cuda_event&>(event).get(),
                            cudaEventWaitDefault),
        "making a stream wait for an event");
}

void cuda_stream::uses(const at::Tensor& tensor) {
  if (tensor.defined() && tensor.is_cuda())
    c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(),
                                                  stream_);
}

void cuda_stream::drain() {
  check(cudaStreamSynchronize(get()), "work of the device");
}

}  // namespace troupe
