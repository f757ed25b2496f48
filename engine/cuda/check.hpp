#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace troupe {

/// Throws an `error` (device) that names the attempt, unless it succeeded.
/// Clears a recoverable error of the runtime's.
void check(cudaError_t result, const char* tried);

/// Throws an `error` (transport) likewise; accepts a call in progress.
void check(ncclResult_t result, const std::string& tried);

}  // namespace troupe
