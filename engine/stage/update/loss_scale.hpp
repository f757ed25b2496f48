#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe {

/// The largest power of two in fp32.
constexpr double largest_loss_scale = 0x1p127;

/// The state of a scale between two steps.
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
    : options_(options), progress_{.value = options.first()} {}

  double value() const { return progress_.value; }
  bool dynamic() const { return options_.dynamic; }
  const loss_scale_progress& progress() const { return progress_; }
  /// The number of the update that the next step makes, from 1. Learning rates
  /// depend on it, so that they don't advance over updates that were skipped.
  std::int64_t next_update(std::int64_t next_step) const {
    return next_step - progress_.skipped;
  }
  /// Continues from an earlier state; takes the value only if it is dynamic.
  void restore(const loss_scale_progress& earlier) {
    progress_.skipped = earlier.skipped;
    if (!options_.dynamic)
      return;
    progress_.value = std::clamp(earlier.value, smallest(), largest_loss_scale);
    progress_.good_steps = earlier.good_steps;
  }
  /// Notes after a step whether its gradient norm was finite, and whether it
  /// has updated the parameters.
  void note(bool finite, bool updated) {
    progress_.skipped += updated ? 0 : 1;
    if (!options_.dynamic)
      return;
    if (!finite) {
      in_vain_ = progress_.value == smallest() ? in_vain_ + 1 : 0;
      progress_.value = std::max(progress_.value / 2, smallest());
      progress_.good_steps = 0;
      return;
    }
    in_vain_ = 0;
    if (++progress_.good_steps == options_.growth_interval) {
      progress_.value = std::min(2 * progress_.value, largest_loss_scale);
      progress_.good_steps = 0;
    }
  }
  /// The number of updates skipped in a row at the smallest scale, if it is too
  /// large; else 0.
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
  loss_scale_progress progress_;
  std::int64_t in_vain_ = 0;  // skipped at the smallest scale, in a row
};

/// The values that are not finite after updates were skipped in vain.
struct vain_skips {
  std::int64_t step = 0;
  double loss = 0;
  std::string gradient = {};   // that of this parameter, closest to the loss
  std::string parameter = {};  // the first one in model order, or empty
};

/// Throws `op_failed` with the first that is not finite: a parameter, the loss,
/// or a gradient.
[[noreturn]] void fail_in_vain(const loss_scale& scale,
                               const vain_skips& skips);

}  // namespace troupe
