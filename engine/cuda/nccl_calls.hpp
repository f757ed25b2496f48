#pragma once

#include <nccl.h>

#include <string>

#include "troupe/engine/device/communicator.hpp"

namespace troupe {

/// Why a transfer's tensors or peer do not fit such a communicator; empty if
/// they do. NCCL itself would access memory beyond a tensor's end.
std::string misfit(const transfer& transfer,
                   const communicator_options& options, int device);

/// Makes NCCL's call for a transfer, which must fit.
ncclResult_t call_nccl(const transfer& transfer, ncclComm_t communicator,
                       cudaStream_t stream);

}  // namespace troupe
