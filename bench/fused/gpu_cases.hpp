#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace troupe {

/// A function with a kernel for GPUs, and LibTorch's operators for the same.
struct gpu_case {
  std::string name, shape, dtype;
  double bytes = 0;  // that have to be read and written
  std::function<void()> theirs, ours;
};

/// Calls `visit` with each, whose tensors live until it returns; `small`: in
/// shapes for a test.
void for_each_gpu_case(at::Device device, bool small,
                       const std::function<void(const gpu_case&)>& visit);

}  // namespace troupe
