#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

struct plan;

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
TROUPE_FIELDS(op_record, op, sequence, ready, begin, end, left, arrived,
              host_begin, host_end)
template <>
inline constexpr bool travels_as_row<op_record> = true;

/// All ops that one rank executed in a step, in executed order.
struct ops_event {
  static constexpr auto kind = "ops";

  event_source source;
  std::vector<op_record> ops;
  /// The plan of these ops; null in other processes, such as clients.
  std::shared_ptr<const troupe::plan> plan = {};

  bool wanted_by(const subscription& wants) const {
    return wants.ops && wants.covers_step(source.step);
  }
  std::string text() const;
};
TROUPE_FIELDS(ops_event, source, ops)

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
TROUPE_FIELDS(message_record, message, bytes, sent, left, arrived, taken, wait)
template <>
inline constexpr bool travels_as_row<message_record> = true;

/// All messages that one rank received in a step, in the order of its ops.
struct messages_event {
  static constexpr auto kind = "messages";

  event_source source;
  std::vector<message_record> messages;

  bool wanted_by(const subscription& wants) const {
    return wants.messages && wants.covers_step(source.step);
  }
  std::string text() const;
};
TROUPE_FIELDS(messages_event, source, messages)

/// Memory at the end of a step's last op on a rank. Values of a process are
/// equal for all of its ranks.
struct memory_event {
  static constexpr auto kind = "memory";

  event_source source;
  std::int64_t resident_bytes = 0;       // physical memory of the process
  std::int64_t peak_resident_bytes = 0;  // since it began
  /// The process can use the memory of its machine, or less if its control
  /// group has a limit.
  std::int64_t usable_bytes = 0;

  bool wanted_by(const subscription& wants) const {
    return wants.memory && wants.covers_step(source.step);
  }
  std::string text() const;
};
TROUPE_FIELDS(memory_event, source, resident_bytes, peak_resident_bytes,
              usable_bytes)

/// Tensors that one op published, in causal order: forwards from a module's
/// weights and inputs to its outputs, children before parents; backwards from
/// the loss on. Parameters and gradients come once a step, without microbatch.
struct tensors_event {
  static constexpr auto kind = "tensors";

  event_source source;
  bool backward = false;
  /// Size of the microbatch: of the stage's first input along dimension 0.
  std::int64_t samples = 0;
  std::vector<tensor_record> tensors{};
  /// Only for monitors that are exempt from a budget: others don't see this
  /// step's tensors.
  bool for_exempt = false;
  step_reading reading = step_reading::once;
  /// Each member of a sharding group publishes its part of sharded parameters
  /// and gradients, flattened, even if it holds none; the hub joins the parts
  /// (shard_joiner.hpp), so that monitors see complete tensors.
  std::int32_t shard = 0, shards = 1;

  bool wanted_by(const subscription& wants) const {
    return wants.wants_tensors(source.step, source.phase)
           && (wants.exempt || !for_exempt) && wants.reads(reading);
  }
  std::string text() const;
  /// Bytes of the records and of tensors that their handles keep alive.
  std::int64_t held_bytes() const;
};

template <class Archive>
void fields(Archive& archive, tensors_event& v) {
  TROUPE_EACH_FIELD(v, source, backward, samples, tensors)
  archive.within_job("for_exempt", v.for_exempt);
  archive.within_job("reading", v.reading);
  archive.within_job("shard", v.shard);
  archive.within_job("shards", v.shards);
  if constexpr (Archive::reads)
    archive.require(v.shard >= 0 && v.shard < v.shards, "shard");
}

/// A named mean over a step: a loss or a model's own metric. `value` is the
/// mean of the counted items, `count` its weight when means are merged.
struct named_value {
  std::string name;
  double value = 0;
  double count = 1;

  /// Whether it is the mean of anything.
  bool counts() const { return count > 0; }
};
TROUPE_FIELDS(named_value, name, value, count)
template <>
inline constexpr bool travels_as_row<named_value> = true;

/// Merges a value into the mean of that name, weighted by counts; a count of 0
/// changes nothing.
void merge(std::vector<named_value>& target, const named_value& value);

/// The outcome of a step.
struct step_event {
  static constexpr auto kind = "step";

  event_source source;
  std::vector<named_value> losses{};   // the optimised one first
  std::vector<named_value> metrics{};  // the model's own
  double gradient_norm = 0;            // before clipping; training only
  /// The parameter closest to the loss whose gradient is not finite; empty:
  /// all are, or no norm was computed.
  std::string not_finite{};
  double learning_rate = 0;
  double loss_scale = 1;
  // false: skip_step, evaluation, an overflow, or no item that a loss counts
  bool updated = false;
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

  bool wanted_by(const subscription& wants) const {
    return wants.steps && wants.covers_step(source.step);
  }
};
TROUPE_FIELDS(step_event, source, losses, metrics, gradient_norm, not_finite,
              learning_rate, loss_scale, updated, tokens, begin, end,
              resident_bytes, observed, observe_seconds, monitor_seconds)

/// A microbatch took longer to load than the warning threshold.
struct slow_load_event {
  static constexpr auto kind = "slow_load";

  event_source source;
  double seconds = 0;

  bool wanted_by(const subscription& wants) const { return wants.warnings; }
  std::string text() const;
};
TROUPE_FIELDS(slow_load_event, source, seconds)

/// The failure that ended a step: of an op, or of something else.
struct failure_event {
  static constexpr auto kind = "failure";

  event_source source;
  std::string op;  // "1F2"; empty outside ops
  std::string reason;

  bool wanted_by(const subscription& wants) const { return wants.warnings; }
  std::string text() const;
};
TROUPE_FIELDS(failure_event, source, op, reason)

/// In a monitor's own stream: the monitor was too slow, and so many events
/// before this one were dropped. The next event begins a step.
struct dropped_event {
  static constexpr auto kind = "dropped";

  event_source source;
  std::int64_t count = 0;

  bool wanted_by(const subscription&) const { return true; }
  std::string text() const;
};
TROUPE_FIELDS(dropped_event, source, count)

/// The processes of a job that heals have met again, and the run goes on after
/// `source.step`; published as the first step begins, so that monitors of a
/// process that leads from this epoch on see it, too. Events of a later step
/// are void: that step was not finished and is run again. Finished steps that
/// are repeated publish no events again.
struct epoch_event {
  static constexpr auto kind = "epoch";

  event_source source;
  std::int64_t epoch = 0;      // the job's first is 1; 0: they are not counted
  std::int32_t processes = 1;  // of the job
  double seconds = 0;          // of the meeting, until states are restored
  std::int64_t moved_bytes = 0;  // of states, from process to process, in it

  bool wanted_by(const subscription&) const { return true; }
  std::string text() const;
};
TROUPE_FIELDS(epoch_event, source, epoch, processes, seconds, moved_bytes)

/// What monitors see. Each has
///   kind         its name in JSON
///   source       where it happened
///   fields       what travels (base/fields.hpp)
///   wanted_by    whether a subscription asks for it
///   text         optional: lines for a person
///   list         optional: a member that may be too long for one frame
using event = std::variant<ops_event, messages_event, memory_event,
                           tensors_event, step_event, slow_load_event,
                           failure_event, dropped_event, epoch_event>;

const event_source& source_of(const event& what);

/// Whether what came so far of a step that is not finished is void.
inline bool voids_step(const event& what) {
  return std::holds_alternative<dropped_event>(what)
         || std::holds_alternative<epoch_event>(what);
}

}  // namespace troupe
