#include "troupe/engine/cuda/check.hpp"

#include "troupe/base/fail.hpp"

namespace troupe {

void check(cudaError_t result, const char* tried) {
  if (result == cudaSuccess)
    return;
  cudaGetLastError();
  fail(error_code::device, "{}: {} ({})", tried, cudaGetErrorString(result),
       cudaGetErrorName(result));
}

void check(ncclResult_t result, const std::string& tried) {
  if (result == ncclSuccess || result == ncclInProgress)
    return;
  const std::string details = ncclGetLastError(nullptr);
  fail(error_code::transport, "{}: NCCL: {}{}{}", tried,
       ncclGetErrorString(result), details.empty() ? "" : ": ", details);
}

}  // namespace troupe
