#pragma once

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The row that engine/cuda/statistics.cu writes for a tensor of the CPU, with
/// its bits: the same code, run by one thread in the order of the device's.
at::Tensor host_statistics_row(const at::Tensor& tensor, bool wide);

}  // namespace troupe
