#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

namespace troupe {

class compute_scope;
class layer_sequence;
struct backward_roots;
struct random_draws;

/// Updates within a step that read older parameters than the newest: what a
/// pipeline without a flush computes.
struct plain_updates {
  std::int32_t every = 0;  // microbatches; 0: one update, at the end
  /// The stages, each of which has versions of its own.
  stage_split stages{};
  /// The number of updates of this step after which a microbatch reads the
  /// parameters of a stage.
  std::function<std::int32_t(std::int32_t stage, std::int32_t microbatch)>
    version{};
};

struct plain_options {
  std::int32_t microbatches = 1;
  std::int32_t data_parallel = 1;
  /// The copy of the stages, from 0, that takes each microbatch; empty: there
  /// is one copy. The gradients of copies are added.
  std::vector<std::int8_t> copy_of{};
  /// The slices of each microbatch's sequence: forwards run one after the
  /// other, backwards last slice first, as in a pipeline.
  std::int32_t slices = 1;
  plain_updates updates{};
  /// The options of what a stage keeps and halts on have no effect.
  troupe::numerics numerics{};
  /// The device, on whose compute stream it runs; null: the CPU.
  std::shared_ptr<rank_device> device{};
  int intra_op_threads = 1;  // of LibTorch, within the loop's functions
};

/// The oracle: the unsplit model in a plain loop with gradient accumulation, in
/// the thread that makes it, without actors or a plan. Replicas and copies are
/// emulated one after the other: the gradients of each one's microbatches are
/// summed separately, these sums are added in ascending order and divided by
/// the number of replicas, and then the gradients of the layers that hold a
/// tied parameter are added. Every pipelined run must give the same bits.
///
/// On a device the host enqueues a step's work without waiting, up to the
/// gradients' norm; the work is done when `step` returns. The calling thread
/// launches. Errors are those of the model, the data and, as `error` (device),
/// the device.
class plain_loop {
 public:
  plain_loop(const model& layers, plain_options options);

  struct result {
    /// The optimised loss (loss_weighting); the weighted sum of several.
    double loss = 0;
    double counted = 0;  // items
    double gradient_norm = 0;
    /// The parameter closest to the loss whose gradient is not finite.
    std::string not_finite = {};
    double learning_rate = 0;
    bool updated = true;
    std::int64_t tokens = 0;
  };
  using data_function = std::function<microbatch_data(std::int64_t index)>;

  /// Makes one step; `load(k)` returns global microbatch k of this step, in
  /// host memory. It is called twice for each, the first time to count the
  /// update's items, unless `counts_equally` (microbatch_source). A step that
  /// `load` ends by an exception does not count; the parameters are those from
  /// before it, unless it updates within the step.
  result step(const data_function& load, bool counts_equally = false);
  /// Sets the index in the data source of the next step's first microbatch, on
  /// which random numbers of forwards depend. It is 0 at first, and each step
  /// adds its microbatches.
  void set_position(std::int64_t microbatches) { position_ = microbatches; }
  /// Mean loss over `count` microbatches, as in a step, without gradients,
  /// named "loss"; rounded to fp32, as `trainer::evaluate` does.
  named_value evaluate(const data_function& load, std::int64_t count);

  /// Handles on the device, whose values the next step changes. Tied parameters
  /// are those of their owners.
  parameter_list parameters() const {
    return without_aliases(holders(), aliases_);
  }
  /// Tied parameters are those of all holders: write the same values to all.
  parameter_list holders() const;
  /// The holders' parameters, and the buffers.
  parameter_list state_dict() const;
  /// As in `stage_parameters`; the state of tied parameters is their owners'.
  optimizer_state state() const {
    return without_aliases(optimizer_->state(), aliases_);
  }
  void load_state(const optimizer_state& state) {
    optimizer_->load(with_aliases(state, aliases_));
  }
  const alias_names& aliases() const { return aliases_; }
  /// The number of steps made, and the loss scale after them, for checkpoints.
  std::int64_t steps() const { return step_; }
  const loss_scale& scale() const { return scale_; }
  void go_on_from(std::int64_t step, const loss_scale_progress& scale) {
    step_ = step;
    scale_.restore(scale);
  }
  /// The model's outputs, without gradients, in host memory.
  tensor_list infer(const tensor_list& inputs);

 private:
  /// The public constructor calls this one within a scope of the thread.
  plain_loop(const compute_scope& in, const model& layers,
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
  loss_scale scale_;
  std::int64_t step_ = 0;
  std::int64_t position_ = 0;
  bool counts_equally_ = false;
  std::vector<loss_term> losses_;
  std::vector<std::int32_t> stage_of_;  // of each parameter, with versions
  tensor_lists versions_;               // of this step, the newest last
};

}  // namespace troupe
