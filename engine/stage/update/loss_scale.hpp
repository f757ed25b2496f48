#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

// Of those in fp32.
constexpr double largest_loss_scale = 0x1p127;

/// Keeps small gradients of half-precision training from underflowing
/// (Micikevicius et al., 2018): the loss is multiplied before the backward pass
/// and the gradients are divided, in fp32, before the update. A dynamic scale
/// halves and skips the update when a gradient is not finite, and doubles after
/// `growth_interval` good steps, within `smallest` and `largest_loss_scale`.
/// Defaults are those of PyTorch's GradScaler; the smallest is Megatron's and
/// DeepSpeed's.
struct loss_scale_options {
  std::optional<double> initial = {};  // none: 2^16 if it is dynamic, else 1
  bool dynamic = false;
  std::int64_t growth_interval = 2000;
  double smallest = 1;  // of a dynamic scale; or `initial`, if that is less
  /// Updates that are skipped in a row at the smallest scale, where halving no
  /// longer helps, before a step fails; 0: none does.
  std::int64_t most_skipped = 10;

  double first() const { return initial.value_or(dynamic ? 0x1p16 : 1); }
};

/// Where a scale stands between two steps.
struct loss_scale_progress {
  double value = 1;
  std::int64_t good_steps = 0;  // since it last changed
  std::int64_t skipped = 0;     // updates, since the run began

  friend bool operator==(const loss_scale_progress&,
                         const loss_scale_progress&) = default;
};

class loss_scale {
 public:
  explicit loss_scale(const loss_scale_options& options)
    : options_(options), now_{.value = options.first()} {}

  double value() const { return now_.value; }
  bool dynamic() const { return options_.dynamic; }
  const loss_scale_progress& progress() const { return now_; }
  /// The number of the update that the next step makes, from 1: learning rates
  /// go by it, so that they don't advance over updates that were skipped.
  std::int64_t next_update(std::int64_t next_step) const {
    return next_step - now_.skipped;
  }
  /// Goes on from there; the value only if it is dynamic.
  void restore(const loss_scale_progress& from) {
    now_.skipped = from.skipped;
    if (!options_.dynamic)
      return;
    now_.value = std::clamp(from.value, smallest(), largest_loss_scale);
    now_.good_steps = from.good_steps;
  }
  /// Call after a step: whether its gradient norm was finite, and whether it
  /// has updated the parameters.
  void note(bool finite, bool updated) {
    now_.skipped += updated ? 0 : 1;
    if (!options_.dynamic)
      return;
    if (!finite) {
      in_vain_ = now_.value == smallest() ? in_vain_ + 1 : 0;
      now_.value = std::max(now_.value / 2, smallest());
      now_.good_steps = 0;
      return;
    }
    in_vain_ = 0;
    if (++now_.good_steps == options_.growth_interval) {
      now_.value = std::min(2 * now_.value, largest_loss_scale);
      now_.good_steps = 0;
    }
  }
  /// Updates skipped in a row at the smallest scale, where they are too many;
  /// else 0.
  std::int64_t skipped_in_vain() const {
    return options_.most_skipped > 0 && in_vain_ >= options_.most_skipped
             ? in_vain_
             : 0;
  }

 private:
  double smallest() const {
    return std::min(options_.smallest, options_.first());
  }

  loss_scale_options options_;
  loss_scale_progress now_;
  std::int64_t in_vain_ = 0;  // skipped at the smallest scale, in a row
};

/// What is not finite once updates were skipped in vain; empty: nothing is.
struct vain_skips {
  std::int64_t step = 0;
  double loss = 0;
  std::string gradient = {};   // of this parameter, the closest to the loss
  std::string parameter = {};  // the first one in model order
};

/// Throws `op_failed` with the first of them: a parameter, the loss, a
/// gradient.
[[noreturn]] void fail_in_vain(const loss_scale& scale, const vain_skips& what);

}  // namespace troupe
