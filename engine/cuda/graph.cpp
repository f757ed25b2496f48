#include "troupe/engine/cuda/graph.hpp"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "troupe/base/fail.hpp"
#include "troupe/engine/cuda/check.hpp"

namespace troupe {
namespace {

/// Converts LibTorch's errors to troupe's.
template <class Work>
void guarded(const char* tried, const Work& work) {
  try {
    work();
  } catch (const c10::Error& reason) {
    cudaGetLastError();
    fail(error_code::device, "{}: {}", tried, reason.what_without_backtrace());
  }
}

/// Runs `work` and ignores errors.
template <class Work>
void try_to(const Work& work) noexcept {
  try {
    work();
  } catch (...) {
    cudaGetLastError();
  }
}

/// A LibTorch graph, whose tensors are in memory of its own.
class cuda_graph final : public device_graph {
 public:
  /// Records it; see accelerator::record_graph.
  cuda_graph(cuda_stream& origin, const std::function<void()>& work)
    : pool_{at::cuda::graph_pool_handle()} {
    const auto device = origin.device().index();
    const c10::cuda::CUDAGuard guard{device};
    // Memory cached by other pools is not available to this one.
    guarded("emptying the allocator",
            [] { c10::cuda::CUDACachingAllocator::emptyCache(); });
    try {
      record(origin, work);
    } catch (...) {
      graph_.abandon(origin.get(), device, pool_);
      throw;
    }
  }

  void launch(device_stream& stream) override {
    const auto scope = stream.enter();
    guarded("launching a graph", [&] { graph_.replay(); });
  }

 private:
  /// LibTorch only ends a successful recording.
  class recorded final : public at::cuda::CUDAGraph {
   public:
    /// Ends the recording, including allocators and generators.
    void abandon(cudaStream_t origin, c10::DeviceIndex device,
                 at::cuda::MempoolId_t pool) noexcept;
  };

  /// Relaxed, as several threads enqueue work and may allocate.
  void record(cuda_stream& origin, const std::function<void()>& work) {
    const auto scope = origin.enter();
    guarded("beginning to record a graph",
            [&] { graph_.capture_begin(pool_, cudaStreamCaptureModeRelaxed); });
    work();
    guarded("recording a graph", [&] { graph_.capture_end(); });
  }

  const at::cuda::MempoolId_t pool_;
  recorded graph_;
};

void cuda_graph::recorded::abandon(cudaStream_t origin, c10::DeviceIndex device,
                                   at::cuda::MempoolId_t pool) noexcept {
  if (capture_ended_)
    return;  // the destructor handles it
  auto status = cudaStreamCaptureStatusNone;
  cudaGraph_t rest = nullptr;
  if (cudaStreamIsCapturing(origin, &status) == cudaSuccess
      && status != cudaStreamCaptureStatusNone)
    cudaStreamEndCapture(origin, &rest);
  if (rest)
    cudaGraphDestroy(rest);
  cudaGetLastError();
  for (const auto& [state, increment] : captured_generator_states_)
    state->capturing_ = false;  // capture_epilogue is not exported
  using namespace c10::cuda::CUDACachingAllocator;
  try_to([&] { endAllocateToPool(device, pool); });
  try_to([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool); });
  try_to([&] { releasePool(device, pool); });
  try_to([] { emptyCache(); });
}

}  // namespace

std::unique_ptr<device_graph> record_graph(cuda_stream& origin,
                                           const std::function<void()>& work) {
  return std::make_unique<cuda_graph>(origin, work);
}

}  // namespace troupe
