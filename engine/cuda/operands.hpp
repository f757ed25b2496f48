#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include "troupe/engine/cuda/row_tasks.hpp"

namespace troupe {

/// A tensor for kernels that read four values at once, which begin at multiples
/// of four; null for an undefined one. Throws `invalid_argument` unless it is
/// of fp32, fp16 or bf16, on a GPU, and begins so.
typed_values values_of(const at::Tensor& tensor);
/// The same; throws for tensors with gaps, too.
typed_values dense_values_of(const at::Tensor& tensor);

/// Uninitialised, in fp32, on the tensor's device.
at::Tensor floats_like(const at::Tensor& tensor, at::IntArrayRef sizes);
/// Null for an undefined tensor.
float* data_of(const at::Tensor& floats);
/// The current stream of the tensor's device.
cudaStream_t current_stream(const at::Tensor& tensor);

}  // namespace troupe
