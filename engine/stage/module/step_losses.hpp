#pragma once

#include <string>
#include <vector>

#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

/// The losses that a stage reports of a step. Those on a device stay there, and
/// are read once, when the step ends. Used by one thread.
class step_losses {
 public:
  /// `device`: null: the CPU.
  step_losses(const numerics& options, rank_device* device);

  void begin(const step_settings& settings);
  /// Adds the losses of a microbatch, or of a slice; they were computed from
  /// `data`. Throws as `take`, on a CPU.
  void add(const std::vector<loss_term>& terms, const microbatch_data& data,
           bool first_slice);
  /// Returns each loss of the step, the mean over what it counts. Throws
  /// `op_failed` for a loss that is not finite, if `halt_on_nan` is set; for
  /// one whose function counted other items than its `counts` did; and for one
  /// that weighs microbatches equally, and whose microbatches count differently
  /// many items.
  std::vector<named_value> take();
  /// The number of items of one microbatch, or slice, by loss, for losses that
  /// weigh microbatches equally. Complete after `take`.
  const item_counts& equal_counts() const { return equal_counts_; }
  /// Keeps the tensors that each launch of a recorded step writes, for the
  /// steps to come.
  void keep();
  void drop();
  /// The losses of the step that are still on a device.
  const std::vector<loss_term>& on_device() const { return on_device_; }

 private:
  void count(const std::string& name, double value, double count);
  void require_expected_counts() const;

  bool halt_on_nan_;
  bool halts_ = false;  // in this step
  loss_weighting weighting_;
  rank_device* device_;
  bool training_ = false;
  std::vector<named_value> losses_;
  std::vector<loss_term> on_device_;  // whose values are not read yet
  std::vector<loss_term> recorded_;   // that each launch of a step writes
  item_counts expected_counts_;
  item_counts equal_counts_;
};

}  // namespace troupe
