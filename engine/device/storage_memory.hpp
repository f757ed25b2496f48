#pragma once

#include <ATen/core/Tensor.h>

namespace troupe {

/// Frees the memory of a tensor's storage: of all tensors that share it, which
/// keep their shapes and must not be read until `allocate_storage`. As
/// PyTorch's FSDP does to parameters that a graph still refers to.
void free_storage(const at::Tensor& tensor);

/// Gives such a storage memory again, of the contents nothing is known; on an
/// accelerator within the entered stream. `tensor` must span the storage.
void allocate_storage(const at::Tensor& tensor);

}  // namespace troupe
