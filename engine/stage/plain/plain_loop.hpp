#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/numerics.hpp"

namespace troupe {

class loss_scale;
class plain_run;
class rank_device;
struct loss_scale_progress;
struct parameter_state;

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
  ~plain_loop();
  plain_loop(plain_loop&&) noexcept;

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
  void set_position(std::int64_t microbatches);
  /// Mean loss over `count` microbatches, as in a step, without gradients,
  /// named "loss"; rounded to fp32, as `trainer::evaluate` does.
  named_value evaluate(const data_function& load, std::int64_t count);

  /// Handles on the device, whose values the next step changes. Tied parameters
  /// are those of their owners.
  parameter_list parameters() const;
  /// Tied parameters are those of all holders: write the same values to all.
  parameter_list holders() const;
  /// The holders' parameters, and the buffers.
  parameter_list state_dict() const;
  /// As in `stage_parameters`; the state of tied parameters is their owners'.
  std::vector<parameter_state> state() const;
  void load_state(const std::vector<parameter_state>& state);
  /// Names of tied parameters: the name that is stored by that of each alias.
  const std::map<std::string, std::string>& aliases() const;
  /// The number of steps made, and the loss scale after them, for checkpoints.
  std::int64_t steps() const;
  const loss_scale& scale() const;
  void go_on_from(std::int64_t step, const loss_scale_progress& scale);
  /// The model's outputs, without gradients, in host memory.
  tensor_list infer(const tensor_list& inputs);

 private:
  std::unique_ptr<plain_run> run_;
};

}  // namespace troupe
