#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>

namespace troupe {

/// Throws an `error` (device) that says what was tried, unless it went well.
/// An error of the runtime's that one can recover from is forgotten then.
void check(cudaError_t result, const char* tried);

/// Throws an `error` (transport) likewise; a call still in progress is fine.
void check(ncclResult_t result, const std::string& tried);

}  // namespace troupe
