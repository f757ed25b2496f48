#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

enum class phase : std::uint8_t { training, validation, inference };

/// A named mean over a step: a loss or a model's own metric. `value` is the
/// mean of what was counted, `count` its weight when means are merged.
struct named_value {
  std::string name;
  double value = 0;
  double count = 1;
};

/// Adds to the mean of that name, weighing by counts.
void merge(std::vector<named_value>& into, const named_value& value);

/// Where in the job something happened. -1 where a part does not apply.
struct event_source {
  std::int64_t step = 0;
  troupe::phase phase = phase::training;
  std::int32_t data_rank = 0;
  std::int32_t rank = -1;  // pipeline rank
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;
  std::int16_t slice = 0;
};

/// One executed op of the plan. Times are host nanoseconds of `now_ns`.
/// `ready` is when its last input was sent; an op could have started at
/// max(ready, end of the rank's op before it).
struct op_record {
  std::uint32_t op = 0;        // index into plan::ops
  std::uint32_t sequence = 0;  // executed order on its rank, from 0
  std::int64_t ready = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// All ops that one rank executed in a step, in executed order.
struct ops_event {
  event_source source;
  std::vector<op_record> ops;
};

/// An activation (a module's output) or its gradient, with the module's
/// dotted name in the unsplit model. The handle keeps the tensor alive.
struct tensor_event {
  event_source source;
  std::string name;
  bool gradient = false;
  at::Tensor tensor;
};

/// The outcome of a step.
struct step_event {
  event_source source;
  std::vector<named_value> losses{};   // the optimised one first
  std::vector<named_value> metrics{};  // the model's own
  double gradient_norm = 0;            // before clipping; training only
  double learning_rate = 0;
  double loss_scale = 1;
  bool updated = false;  // false: skip_step, evaluation, or an overflow
  std::int64_t tokens = 0;
  std::int64_t begin = 0;  // host ns
  std::int64_t end = 0;
  std::int64_t resident_bytes = 0;
};

/// A microbatch took longer to load than the warning threshold.
struct slow_load_event {
  event_source source;
  double seconds = 0;
};

struct failure_event {
  event_source source;
  std::string op;
  std::string reason;
};

using event = std::variant<ops_event, tensor_event, step_event, slow_load_event,
                           failure_event>;

const event_source& source_of(const event& event);

/// What a monitor wants to see. Whatever nobody asks for is neither computed
/// nor sent.
struct subscription {
  bool ops = false;
  bool tensors = false;  // observed activations and their gradients
  bool steps = true;
  bool warnings = true;     // slow loads and failures
  std::string names = "*";  // glob over module names, for tensors
  std::int64_t every = 1;   // steps with step % every == 0

  bool covers(const event& event) const;
};

/// `*` stands for any characters, `?` for one.
bool matches_glob(const std::string& pattern, const std::string& name);

}  // namespace troupe
