#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

namespace troupe {

class compute_scope;
class layer_sequence;
struct backward_roots;
struct random_draws;

/// Implements plain_loop, whose members have the same names.
class plain_run {
 public:
  using result = plain_loop::result;
  using data_function = plain_loop::data_function;

  plain_run(const model& layers, plain_options options);

  result step(const data_function& load, bool counts_equally);
  void set_position(std::int64_t microbatches) { position_ = microbatches; }
  named_value evaluate(const data_function& load, std::int64_t count);
  parameter_list parameters() const {
    return without_aliases(holders(), aliases_);
  }
  parameter_list holders() const;
  parameter_list state_dict() const;
  optimizer_state state() const {
    return without_aliases(optimizer_->state(), aliases_);
  }
  void load_state(const optimizer_state& state) {
    optimizer_->load(with_aliases(state, aliases_));
  }
  const alias_names& aliases() const { return aliases_; }
  std::int64_t steps() const { return step_; }
  const loss_scale& scale() const { return scale_; }
  void go_on_from(std::int64_t step, const loss_scale_progress& scale) {
    step_ = step;
    scale_.restore(scale);
  }
  tensor_list infer(const tensor_list& inputs);

 private:
  /// The public constructor calls this one within a scope of the thread.
  plain_run(const compute_scope& in, const model& layers,
            plain_options options);
  void find_stages(const model& layers);
  std::int32_t microbatches_of_update() const {
    return options_.updates.every == 0 ? options_.microbatches
                                       : options_.updates.every;
  }
  parameter_list trained(const layer_sequence& module) const;
  std::unique_ptr<stream_scope> enter() const;
  /// The optimised losses of the model.
  std::vector<loss_term> losses_of_microbatch(const microbatch_data& data);
  /// The items that losses count in an update, and in each microbatch.
  struct counted_items {
    update_items update;
    std::map<std::int64_t, item_counts> by_microbatch;
  };
  counted_items count_items(const data_function& load, std::int32_t first,
                            std::int32_t last) const;
  backward_roots roots_of(const microbatch_data& part, random_draws& draws);
  void run(const backward_roots& roots);
  /// `index`: that of the microbatch in the step.
  void accumulate(const microbatch_data& data, std::int64_t index);
  void accumulate_slices(const microbatch_data& data, random_draws& draws);
  /// Accumulates those of the microbatches `first` up to `last` of a replica
  /// that a copy takes.
  void accumulate(const data_function& load, const counted_items& items,
                  std::int32_t replica, std::int8_t copy, std::int32_t first,
                  std::int32_t last, result& outcome);
  void accumulate_update(const data_function& load, std::int32_t first,
                         std::int32_t last, result& outcome);
  void update(result& outcome);
  void read_versions(std::int32_t microbatch);
  named_value take_losses();
  /// `members`: the gradients by replica and copy.
  void average(tensor_lists members);
  void sum_tied();

  plain_options options_;
  std::shared_ptr<layer_sequence> module_;
  alias_names aliases_;
  tensor_list values_;  // of the trained parameters
  parameter_list norm_parameters_;
  std::vector<tied_gradient> tied_;
  item_counter counter_;  // null: no loss counts items beforehand
  std::unique_ptr<optimizer> optimizer_;
  weight_casts::pointer casts_;  // null: no autocast
  loss_scale scale_;
  std::int64_t step_ = 0;
  std::int64_t position_ = 0;
  bool counts_equally_ = false;
  std::vector<loss_term> losses_;
  std::vector<std::int32_t> stage_of_;  // of each parameter, with versions
  tensor_lists versions_;               // of this step, the newest last
};

}  // namespace troupe
