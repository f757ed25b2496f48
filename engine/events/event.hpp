#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "troupe/engine/events/tensor_record.hpp"

namespace troupe {

enum class phase : std::uint8_t { training, validation, inference };

/// A named mean over a step: a loss or a model's own metric. `value` is the
/// mean of the counted items, `count` its weight when means are merged.
struct named_value {
  std::string name;
  double value = 0;
  double count = 1;
};

/// Merges a value into the mean of that name, weighted by counts; a count of 0
/// changes nothing.
void merge(std::vector<named_value>& target, const named_value& value);

/// Where in the job something happened. -1 for parts that don't apply.
struct event_source {
  std::int64_t step = 0;
  troupe::phase phase = phase::training;
  std::int32_t data_rank = 0;
  std::int32_t rank = -1;  // pipeline rank
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;
  std::int16_t slice = 0;
  /// Which monitors were attached when the step began, as a count of changes;
  /// later ones don't see the rest of the step. -1: for all.
  std::int64_t epoch = -1;
};

/// One executed op of the plan. Times are host nanoseconds of `now_ns`. `ready`
/// is when its last input was sent; an op could have started at max(ready, end
/// of the rank's op before it). An input from another process left it at
/// `left`, when its channel had a credit, and arrived at `arrived`; within a
/// process both are 0. On a device `begin` and `end` are its run time there, by
/// the host's clock, and the host launched it from `host_begin` to `host_end`;
/// on a CPU those are 0.
struct op_record {
  std::uint32_t op = 0;        // index into plan::ops
  std::uint32_t sequence = 0;  // executed order on its rank, from 0
  std::int64_t ready = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t left = 0;
  std::int64_t arrived = 0;
  std::int64_t host_begin = 0;
  std::int64_t host_end = 0;
};

/// All ops that one rank executed in a step, in executed order.
struct ops_event {
  event_source source;
  std::vector<op_record> ops;
};

/// A message of the plan as seen by the receiving rank. Times are host
/// nanoseconds of `now_ns`; `left` and `arrived` as in op_record.
struct message_record {
  std::int32_t message = -1;  // index into plan::messages
  std::int64_t bytes = 0;     // of its tensors
  std::int64_t sent = 0;
  std::int64_t left = 0;
  std::int64_t arrived = 0;
  std::int64_t taken = 0;  // when the op that consumes it began
  std::int64_t wait = 0;   // how long the rank was idle for it, in ns
};

/// All messages that one rank received in a step, in the order of its ops.
struct messages_event {
  event_source source;
  std::vector<message_record> messages;
};

/// Memory at the end of a step's last op on a rank. Values of a process are
/// equal for all of its ranks.
struct memory_event {
  event_source source;
  std::int64_t resident_bytes = 0;       // physical memory of the process
  std::int64_t peak_resident_bytes = 0;  // since it began
  std::int64_t machine_bytes = 0;        // physical memory of its machine
};

/// Tensors that one op published, in causal order: forwards from a module's
/// weights and inputs to its outputs, children before parents; backwards from
/// the loss on. Parameters and gradients come once a step, without microbatch.
struct tensors_event {
  event_source source;
  bool backward = false;
  /// Size of the microbatch: of the stage's first input along dimension 0.
  std::int64_t samples = 0;
  std::vector<tensor_record> tensors{};
  /// Only for monitors that are exempt from a budget: others don't see this
  /// step's tensors.
  bool for_exempt = false;

  /// Bytes of the records and of tensors that their handles keep alive.
  std::int64_t held_bytes() const;
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
  /// Whether all monitors that want tensors saw them, not only those exempt
  /// from a budget.
  bool observed = false;
  /// Time that the step's own threads spent on monitors, all ranks together.
  double observe_seconds = 0;
  /// Processor time of the monitors' own threads since the step before.
  double monitor_seconds = 0;
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

/// In a monitor's own stream: the monitor was too slow, and so many events
/// before this one were dropped. The next event begins a step.
struct dropped_event {
  event_source source;
  std::int64_t count = 0;
};

using event =
  std::variant<ops_event, messages_event, memory_event, tensors_event,
               step_event, slow_load_event, failure_event, dropped_event>;

const event_source& source_of(const event& event);

}  // namespace troupe
