#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>

#include "troupe/engine/cuda/stream.hpp"
#include "troupe/engine/device/device_graph.hpp"

namespace troupe {

/// A LibTorch graph, whose tensors are in memory of its own.
class cuda_graph final : public device_graph {
 public:
  /// Records it; see accelerator::record_graph.
  cuda_graph(cuda_stream& origin, const std::function<void()>& work);

  void launch(device_stream& stream) override;

 private:
  /// LibTorch only ends a successful recording.
  class recorded final : public at::cuda::CUDAGraph {
   public:
    /// Ends the recording, including allocators and generators.
    void abandon(cudaStream_t origin, c10::DeviceIndex device,
                 at::cuda::MempoolId_t pool) noexcept;
  };

  void record(cuda_stream& origin, const std::function<void()>& work);

  const at::cuda::MempoolId_t pool_;
  recorded graph_;
};

}  // namespace troupe
