#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace troupe {

/// Throws an `error` (device) that names the attempt, unless it succeeded.
/// Clears a recoverable error of the runtime's.
void check(cudaError_t result, const char* tried);

/// Throws an `error` (transport) likewise; accepts a call in progress.
void check(ncclResult_t result, const std::string& tried);

/// A device's number, counted as CUDA does, as LibTorch's type.
inline c10::DeviceIndex index_of(int device) {
  return static_cast<c10::DeviceIndex>(device);
}

}  // namespace troupe
