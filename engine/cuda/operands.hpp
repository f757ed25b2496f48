#pragma once

#include <ATen/core/Tensor.h>
#include <cuda_runtime_api.h>

#include <optional>

#include <initializer_list>

#include "troupe/engine/cuda/row_tasks.hpp"

namespace troupe {

/// fp32, fp64, fp16 or bf16; none for other dtypes.
std::optional<device_type> device_type_of(const at::Tensor& tensor);

/// A tensor for kernels that read four values at once, which begin at multiples
/// of four; null for an undefined one. Throws `invalid_argument` unless it is
/// of fp32, fp16 or bf16, on a GPU, and begins so.
typed_values values_of(const at::Tensor& tensor);
/// The same; throws for tensors with gaps, too.
typed_values dense_values_of(const at::Tensor& tensor);

/// Throws `invalid_argument` unless all that are defined are on one GPU.
void require_one_gpu(std::initializer_list<at::Tensor> tensors);

/// Uninitialised, in fp32, on the tensor's device.
at::Tensor floats_like(const at::Tensor& tensor, at::IntArrayRef sizes);
/// So many fp32 values without gaps, for kernels that read one at a time; null
/// for an undefined tensor. Throws `invalid_argument` for others.
float* data_of(const at::Tensor& floats, std::int64_t count);
/// The current stream of the tensor's device.
cudaStream_t current_stream(const at::Tensor& tensor);

}  // namespace troupe
