#include "troupe/engine/device/storage_memory.hpp"

#include <ATen/ops/empty_like.h>

#include <utility>

namespace troupe {

void free_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  storage.set_data_ptr(c10::DataPtr(nullptr, tensor.device()));
  storage.set_nbytes(0);
}

void allocate_storage(const at::Tensor& tensor) {
  const auto& storage = tensor.storage();
  const auto fresh = at::empty_like(tensor);
  storage.set_data_ptr(
    fresh.storage().set_data_ptr(c10::DataPtr(nullptr, tensor.device())));
  storage.set_nbytes(tensor.nbytes());
  fresh.storage().set_nbytes(0);
}

}  // namespace troupe
