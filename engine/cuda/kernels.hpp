#pragma once

#include <vector>

#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/device/device_kernels.hpp"

namespace troupe {

class cuda_kernels final : public device_kernels {
 public:
  explicit cuda_kernels(int device) : device_{device} {}

  void measure(const tensor_list& tensors, const at::Tensor& rows) override;
  at::Tensor norm_powers(const tensor_list& tensors, norm_type type) override;
  void scale(const tensor_list& tensors, const at::Tensor& factor) override;
  void delay(double seconds) override;

 private:
  void require_here(const at::Tensor& tensor) const;
  void require_floats(const at::Tensor& tensor) const;
  void require_measurable(const at::Tensor& tensor) const;
  std::vector<flat_entry> flat_entries(const tensor_list& tensors) const;
  void launch_statistics_of(const std::vector<statistics_entry>& entries,
                            const at::Tensor& rows);
  at::Tensor room(std::int64_t bytes) const;
  at::Tensor zeros(std::int64_t count, at::ScalarType type) const;

  const int device_;
};

}  // namespace troupe
