#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>

#include "troupe/engine/cuda/stream.hpp"
#include "troupe/engine/device/device_graph.hpp"

namespace troupe {

/// A graph of LibTorch's, whose tensors are in memory of its own.
class cuda_graph final : public device_graph {
 public:
  /// Records it; see accelerator::record_graph.
  cuda_graph(cuda_stream& origin, const std::function<void()>& work);

  void launch(device_stream& on) override;

 private:
  /// LibTorch ends a recording that went well, and only that.
  class recorded final : public at::cuda::CUDAGraph {
   public:
    /// Ends the recording, and what allocators and generators do for it.
    void abandon(cudaStream_t origin, c10::DeviceIndex device,
                 at::cuda::MempoolId_t pool) noexcept;
  };

  void record(cuda_stream& origin, const std::function<void()>& work);

  const at::cuda::MempoolId_t pool_;
  recorded graph_;
};

}  // namespace troupe
