#pragma once

#include <string>
#include <vector>

#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

/// What a stage reports of its losses of a step. Of a device it keeps them
/// there, and reads them once, when the step ends. One thread.
class step_losses {
 public:
  /// `device`: null: the CPU.
  step_losses(const numerics& how, rank_device* device);

  void begin(const step_settings& settings);
  /// The losses of a microbatch, or of a slice: `data` is what they were
  /// computed from. Throws as `take`, on a CPU.
  void add(const std::vector<loss_term>& terms, const microbatch_data& data,
           bool first_slice);
  /// Each loss of the step, the mean over what it counts. Throws `op_failed`
  /// for a loss that is not finite, where that is to be an error; for one that
  /// its function counted otherwise than it told beforehand; and for one that
  /// weighs microbatches equally, and counts differently many items of each.
  std::vector<named_value> take();
  /// The number of items of one microbatch, or slice, by loss, for losses that
  /// weigh microbatches equally. Complete after `take`.
  const item_counts& equal_counts() const { return equal_counts_; }
  /// In a step in parts: keeps what each launch writes, for the steps to come.
  void keep();
  void drop();

 private:
  void count(const std::string& name, double value, double count);
  void require_expected_counts() const;

  bool halts_;
  loss_weighting weighting_;
  rank_device* device_;
  bool training_ = false;
  std::vector<named_value> losses_;
  std::vector<loss_term> on_device_;  // whose values are not read yet
  std::vector<loss_term> kept_;       // that each launch of a step writes
  item_counts expected_counts_;       // beforehand
  item_counts equal_counts_;  // of those that weigh microbatches equally
};

}  // namespace troupe
