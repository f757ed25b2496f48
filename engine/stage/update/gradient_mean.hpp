#pragma once

#include <cstdint>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// The mean over replicas of gradients, those of copies added.
class gradient_mean {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  gradient_mean(std::int32_t replicas, gradient_division division = {});

  std::int32_t replicas() const { return replicas_; }

  /// The mean of one parameter's gradients, by replica and copy: added in that
  /// order, into the first one if that has the sum's dtype. A missing gradient
  /// counts as zeros; the mean is undefined if all are missing. It is fp32 for
  /// gradients of 16 bits. A single gradient is its own mean, whatever the
  /// factors.
  at::Tensor of(const tensor_list& gradients) const;

  // The parts of `of`, for sums that others compute.

  at::Tensor addend(const at::Tensor& gradient) const;
  at::Tensor divided(at::Tensor sum) const;

 private:
  std::int32_t replicas_;
  gradient_division division_;
};

}  // namespace troupe
