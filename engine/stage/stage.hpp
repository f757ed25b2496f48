#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/engine/events/interest.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

/// A step runs in one go, or in two parts, one after the other: what is done
/// up to the gradients is recorded, to be launched at once in later steps, and
/// the update is not (engine/plan/part.hpp).
enum class step_part : std::uint8_t { whole, gradients, update };

/// What holds for all ops of a step on every stage.
struct step_settings {
  std::int64_t step = 1;
  troupe::phase phase = troupe::phase::training;
  double learning_rate = 0;
  double loss_scale = 1;
  /// The last stage's gradient: loss_scale / (microbatches x slices).
  double loss_gradient = 1;
  /// Copies of the pipeline, whose gradients are averaged.
  std::int32_t data_ranks = 1;
  bool skip_update = false;
  /// What monitors want of the step's tensors; null: nothing.
  std::shared_ptr<const tensor_interest> interest;
  bool tells_messages = false;  // a monitor wants messages_events,
  bool tells_memory = false;    // memory_events
  bool tells_ops = false;       // ops_events
  std::int64_t epoch = -1;      // see event_source
  /// Index in the data source of microbatch 0 of data rank 0.
  std::int64_t first_microbatch = 0;
  step_part part = step_part::whole;
  /// Of an update: the tokens that the gradients are of, and when the step
  /// began, in host nanoseconds.
  std::int64_t tokens = 0, began = 0;

  bool training() const { return phase == troupe::phase::training; }
};

/// What a stage has to report when its part of a step is done.
struct stage_result {
  std::vector<named_value> losses;
  std::vector<named_value> metrics;
  std::int64_t observe_ns = 0;  // spent for monitors
};

/// The parameters of a stage, and what becomes of them when a step's gradients
/// are there.
class trained_parameters {
 public:
  virtual ~trained_parameters() = default;

  /// Parameters in model order; gradients hang on them. Shared handles.
  virtual const tensor_list& parameters() const = 0;

  /// Publishes parameters and reduced gradients, if monitors want them.
  virtual void show_parameters() {}

  /// Multiplies the gradients by `factor`, then updates the parameters.
  virtual void update(double factor) = 0;
};

/// What a stage actor drives: one stage's numeric work. All calls come from
/// one thread at a time, in the order of the plan.
class stage : public trained_parameters {
 public:
  /// Drops the gradients of the step before. An update takes up those of the
  /// last step that ran in parts, and its losses.
  virtual void begin_step(const step_settings& settings) = 0;

  /// `inputs`: the previous stage's outputs, or data.inputs on the first.
  /// Returns the outputs, without graph; the last stage returns none and
  /// keeps its losses.
  virtual tensor_list forward(microbatch_key key, tensor_list inputs,
                              const microbatch_data& data) = 0;

  /// `kind` is B, I or W. `output_gradients` is empty on the last stage and
  /// for W. Returns the gradients of the inputs (none for W), which
  /// accumulate nowhere; those of the parameters do.
  virtual tensor_list backward(op_kind kind, microbatch_key key,
                               tensor_list output_gradients) = 0;

  /// Throws `internal` if anything of the step is left. Of gradients alone:
  /// keeps them and the losses, and throws `invalid_argument` for metrics of
  /// the model's own, which are computed on the host.
  virtual stage_result end_step() = 0;

  /// Lets go of what the last step that ran in parts has left, and of all that
  /// one left that could not be recorded.
  virtual void drop_kept() {}
};

}  // namespace troupe
