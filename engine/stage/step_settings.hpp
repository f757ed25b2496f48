#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "troupe/base/fields.hpp"
#include "troupe/engine/events/interest.hpp"

namespace troupe {

struct generation_step;

/// A step runs whole or in two consecutive parts: the work up to the gradients
/// is recorded, to be launched as a whole in later steps; the update is not
/// (engine/plan/compile/part.hpp).
enum class step_part : std::uint8_t { whole, gradients, update };

/// The settings of a step that each process's program decides. The leading
/// process sends its decision to the others, whose own must be the same.
struct step_decision {
  std::int64_t step = 1;
  troupe::phase phase = troupe::phase::training;
  double learning_rate = 0;
  double loss_scale = 1;
  /// Index in the data source of microbatch 0 of data rank 0.
  std::int64_t first_microbatch = 0;
  bool skip_update = false;

  bool training() const { return phase == troupe::phase::training; }
};
TROUPE_FIELDS(step_decision, step, phase, learning_rate, loss_scale,
              first_microbatch, skip_update)

/// What a stage needs to know of a step's plan.
struct plan_traits {
  bool splits_backward = false;   // some backwards are I and W
  std::int32_t slices = 1;        // of a microbatch
  std::int32_t microbatches = 1;  // of each replica
  std::int32_t microbatches_of_update = 1;
};

/// Settings of a step for all ops on every stage: what the program decides,
/// what monitors want to see, what the plan is like, and what the process finds
/// out.
struct step_settings : step_decision, step_wishes, plan_traits {
  /// The gradient of each loss: loss_scale / (microbatches of an update x
  /// slices).
  double loss_gradient = 1;
  /// The number of replicas, whose gradients are averaged.
  std::int32_t data_ranks = 1;
  /// So many microbatches of all replicas count. The others fill the step up:
  /// their losses and metrics don't count.
  std::int64_t counted = std::numeric_limits<std::int64_t>::max();
  /// The sequences that a step of inference continues; else null.
  std::shared_ptr<const generation_step> generation = {};
  step_part part = step_part::whole;
  /// int32 [microbatches of all replicas, 2] on the device, for a recorded step
  /// (engine/stage/random_draws.hpp); else undefined.
  at::Tensor draw_keys = {};
  /// The tokens behind an update's gradients, and the time when its step began,
  /// in host nanoseconds.
  std::int64_t tokens = 0, began = 0;
  /// The first run of a step that is run again showed tensors to all monitors
  /// that want them.
  bool observed = false;
};

}  // namespace troupe
