#pragma once

#include <cstdint>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// How the mean of the gradients of replicas is computed, as in XLA's fully
/// sharded data parallel: each is divided by `before` in its own dtype (see
/// `numerics::reduces_in_fp32`), converted to fp32 if it has 16 bits and
/// `in_fp32` is set, added, converted to fp32, and divided by `after`.
struct gradient_division {
  double before = 1;
  double after = 0;     // 0: replicas / before, so that the result is the mean
  bool in_fp32 = true;  // fp32_reduce_scatter

  friend bool operator==(const gradient_division&,
                         const gradient_division&) = default;
};

/// A division before the sum by a power of two near the square root of the
/// number of replicas, and by the rest after it: neither the gradients nor
/// their sum leave the range of fp16 where the mean does not (fairscale).
gradient_division balanced_division(std::int32_t replicas);

/// Throws `invalid_argument` for factors that are not finite and positive.
void require_legal(const gradient_division& division);

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
