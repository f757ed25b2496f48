#pragma once

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The row that engine/cuda/statistics.cu writes for a tensor, computed on the
/// CPU with the same bits: by the same code, run by one thread in the device's
/// order.
at::Tensor host_statistics_row(const at::Tensor& tensor, bool wide);

}  // namespace troupe
