#include "troupe/engine/cuda/accelerator.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/graph.hpp"
#include "troupe/engine/cuda/nccl_communicator.hpp"
#include "troupe/engine/cuda/stream.hpp"

namespace troupe {
namespace {

accelerator_description described(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device),
        "asking for a device's properties");
  return {.device = {c10::kCUDA, index_of(device)},
          .name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .multiprocessors = properties.multiProcessorCount,
          .total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem)};
}

}  // namespace

cuda_accelerator::cuda_accelerator(int device)
  : device_{device}, description_{described(device)}, kernels_{device} {
  const c10::cuda::CUDAGuard guard{index_of(device)};
  check(cudaFree(nullptr), "starting the device");
}

device_memory cuda_accelerator::memory() const {
  const c10::cuda::CUDAGuard guard{index_of(device_)};
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for a device's memory");
  const auto stats =
    c10::cuda::CUDACachingAllocator::getDeviceStats(index_of(device_));
  return {.allocated = stats.allocated_bytes[0].current,
          .peak_allocated = stats.allocated_bytes[0].peak,
          .reserved = stats.reserved_bytes[0].current,
          .free = static_cast<std::int64_t>(free),
          .total = static_cast<std::int64_t>(total)};
}

std::unique_ptr<device_stream> cuda_accelerator::make_stream(
  stream_priority priority) {
  return std::make_unique<cuda_stream>(stream_pool::of_device(device_),
                                       priority);
}

std::unique_ptr<device_graph> cuda_accelerator::record_graph(
  device_stream& origin, const std::function<void()>& work) {
  return std::make_unique<cuda_graph>(static_cast<cuda_stream&>(origin), work);
}

communicator_id cuda_accelerator::make_communicator_id() {
  return make_nccl_id();
}

std::unique_ptr<communicator> cuda_accelerator::make_communicator(
  const communicator_options& options) {
  return std::make_unique<nccl_communicator>(device_, options);
}

}  // namespace troupe
