#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe {

/// Keeps small gradients of half-precision training from underflowing
/// (Micikevicius et al.): the loss is multiplied before the backward pass and
/// the gradients are divided before the update. At most
/// `largest_loss_scale`; a dynamic one at least `smallest_loss_scale`. A
/// dynamic scale halves and skips the update when a gradient is not finite, and
/// doubles after `growth_interval` good steps.
// Of those in fp32.
constexpr double largest_loss_scale = 0x1p127, smallest_loss_scale = 0x1p-126;

struct loss_scale_options {
  double initial = 1;
  bool dynamic = false;
  std::int64_t growth_interval = 2000;
};

class loss_scale {
 public:
  explicit loss_scale(const loss_scale_options& options)
    : options_(options), value_(options.initial) {}

  double value() const { return value_; }
  bool dynamic() const { return options_.dynamic; }
  /// Steps since it last changed.
  std::int64_t good_steps() const { return good_steps_; }
  /// Goes on from there, if it is dynamic.
  void restore(double value, std::int64_t good_steps) {
    if (!options_.dynamic)
      return;
    value_ = std::min(value, largest_loss_scale);
    good_steps_ = good_steps;
  }
  /// Call after a step; `finite` is whether its gradient norm was finite.
  void update(bool finite) {
    if (!options_.dynamic)
      return;
    if (!finite) {
      value_ = std::max(value_ / 2, smallest_loss_scale);
      good_steps_ = 0;
    } else if (++good_steps_ == options_.growth_interval) {
      value_ = std::min(2 * value_, largest_loss_scale);
      good_steps_ = 0;
    }
  }

 private:
  loss_scale_options options_;
  double value_;
  std::int64_t good_steps_ = 0;
};

}  // namespace troupe
