#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/step/failure_kind.hpp"
#include "troupe/actors/step/run_end.hpp"
#include "troupe/base/fields.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/stage/collective_work.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

// A message that also travels to other processes has `fields`
// (base/fields.hpp); its other members are of the process.

class prepared_plan;
class recording;
class step_gate;

/// A step as actors speak of it. `serial` counts every step of a run, also
/// evaluations; messages of two steps can't be confused.
struct step_context {
  std::int64_t serial = 0;
  step_settings settings;
  plan_pointer plan;
  source_pointer source;
  std::shared_ptr<prepared_plan> prepared = {};  // where ranks run it
  std::shared_ptr<recording> recorded = {};      // null: the ops run
  /// Orders that take the place of the lanes'; null: none do.
  std::shared_ptr<const step_orders> orders = {};
  /// Never null while the step runs.
  std::shared_ptr<step_gate> gate = {};
};
using step_pointer = std::shared_ptr<const step_context>;

TROUPE_FIELDS(microbatch_key, microbatch, slice)
TROUPE_FIELDS(stage_result, losses, metrics, observe_ns, equal_counts,
              changed_buffers)

/// Names a tensor message and announces what it holds; always checked.
struct envelope {
  std::uint64_t run = 0;
  std::int64_t serial = 0;
  std::int32_t data_rank = 0;
  std::int32_t from_stage = 0;
  std::int32_t to_stage = 0;
  std::int8_t copy = 0;  // of both stages
  microbatch_key key;
  bool backward = false;
  std::int32_t message = none;  // in plan::messages
  std::int64_t sent = 0;        // host ns
  std::int64_t left = 0;        // the process, with a credit; 0: it did not
  /// The tensors travel from device to device; this message announces them.
  bool by_device = false;
  /// Shapes and dtypes of the tensors; empty unless `by_device`.
  std::vector<std::pair<at::ScalarType, std::vector<std::int64_t>>> tensors;
};
TROUPE_FIELDS(envelope, run, serial, data_rank, from_stage, to_stage, copy, key,
              backward, message, sent, left, by_device, tensors)

// ---- coordinator -> rank, loader
struct begin_step {
  step_pointer step;
};

/// rank -> rank: the output of a forward or backward that another rank reads.
struct stage_tensors {
  envelope header;
  tensor_list tensors;
  std::int64_t arrived = 0;  // of another process: when
  /// For a message of another process: released when the message is consumed,
  /// which returns the sender's credit.
  std::shared_ptr<const void> receipt = {};
  /// When a device has made them; null: they are there.
  event_handle ready = {};
};

// ---- rank <-> loader
struct want_data {
  step_pointer step;
  stage_instance reader;
  std::int32_t microbatch = 0;
};
struct loaded_data {
  static constexpr std::int16_t all_slices = -1;

  std::int64_t serial = 0;
  stage_instance reader;
  std::int32_t microbatch = 0;
  std::int64_t sent = 0;
  std::shared_ptr<const microbatch_data> data;
  /// In generation each slice has data of its own.
  std::int16_t slice = all_slices;
};

// ---- rank of the last stage -> rank of the first one
/// In generation: the tokens with which a microbatch's slice begins, chosen at
/// the end of the slice before, row by row; none: its sequences have ended.
struct chosen_tokens {
  std::int64_t serial = 0;
  std::int32_t data_rank = 0;
  microbatch_key key;
  std::int64_t sent = 0;
  std::vector<std::int64_t> ids;
};
TROUPE_FIELDS(chosen_tokens, serial, data_rank, key, sent, ids)

// ---- coordinator -> rank
struct norm_verdict {
  std::int64_t serial = 0;
  std::int64_t sent = 0;
  double factor = 1;   // for the gradients, before the update
  bool update = true;  // false: overflow, or the step is run again
};
TROUPE_FIELDS(norm_verdict, serial, sent, factor, update)

// ---- rank <-> stage
/// One op of the plan, with the values that it reads: of a forward or backward
/// those of `for_each_input`, in that order. The stage uses the rank's device
/// until it answers.
struct run_op {
  std::uint32_t op = 0;  // into plan::ops
  tensor_lists inputs;
  at::Tensor present = {};          // as in member_gradients, of such inputs
  std::vector<event_handle> ready;  // when they are there; null: they are
  stage_states states = {};         // of the stage's own
  std::shared_ptr<const microbatch_data> data;  // of a forward that reads it
  event_handle data_ready;
  std::vector<event_handle> after = {};  // what its stream waits for, besides
  /// It runs beside the op of its rank's compute streams before it: as the
  /// second of an overlapped pair, or on another stream.
  bool beside = false;
  std::optional<norm_verdict> norm = {};  // of an update that waits for it
};
struct op_launched {
  std::int64_t serial = 0;
  std::uint32_t op = 0;
  tensor_lists outputs;     // as `for_each_output` names them
  at::Tensor present = {};  // as in member_gradients, of such outputs
  stage_states states = {};
  at::Tensor chosen = {};  // as in op_outputs
  bool asked = false;      // a reducer, whose answer will be the output
  event_handle ready;      // when a device has made them
  std::int64_t begin = 0, end = 0;        // host ns
  event_handle device_begin, device_end;  // null on a CPU
};
struct end_step {
  /// Reduced ones that no op of the plan has read: of a step's first part.
  tensor_list gradients = {};
  at::Tensor present = {};  // as in member_gradients
  /// When parameters are whole that no op of the step reads; null: they are.
  event_handle gathered = {};
};

// ---- rank -> reducer -> rank
/// A member's part of a collective of its group. All members ask for the same
/// ones in the same order.
struct collective_request {
  std::int64_t serial = 0;
  stage_instance owner;
  std::int32_t data_rank = 0;
  collective_work work;  // the reducer's from here on
  /// Where its tensors are not on a CPU, and when they are there.
  std::shared_ptr<accelerator> device = {};
  event_handle ready = {};
  std::shared_ptr<recording> recorded = {};
};
struct collective_result {
  std::int64_t serial = 0;
  stage_instance owner;
  std::int32_t data_rank = 0;
  /// The result of a reduction or sum, as `put_gradients` takes it.
  tensor_list gradients;
  at::Tensor present = {};  // as in member_gradients
  std::int64_t sent = 0;
  event_handle ready = {};  // as in stage_tensors
};

/// A part of a collective on its way between processes. The members of a
/// stage's group are its copies in all replicas, by replica, then copy. Of a
/// sum of tied gradients, the stages that hold tied parameters, of one replica
/// and copy, are a group.
struct collective_part {
  std::int64_t serial = 0;
  std::int32_t stage = 0;
  std::int32_t member = 0;  // whose part; none: the result of all
  /// An all-reduce has as many pieces as members. The piece of a reduce-scatter
  /// is a shard, that of a gather a member, and that of a sum a holder, by tie,
  /// then in model order.
  std::int32_t piece = 0;
  at::Tensor values;      // one dimension
  std::int64_t call = 0;  // the number of the group's collective in this run
  collective_kind kind = collective_kind::all_reduce;
  /// The replica and copy whose stages make a sum.
  std::int32_t data_rank = 0;
  std::int8_t copy = 0;
  /// As in `reduction`: of the member, or of all.
  std::vector<std::uint32_t> absent = {};
};
TROUPE_FIELDS(collective_part, serial, stage, member, piece, call, kind,
              data_rank, copy, absent)

// ---- stage -> coordinator
struct stage_powers {
  std::int64_t serial = 0;
  std::int32_t stage = 0;
  std::vector<double> powers{};  // of each parameter's gradient, for the norm
  /// The shard of the gradients that the powers describe. none: another
  /// instance of the stage reports the powers, and this message only reports
  /// the hit and the buffers of a watched step.
  std::int32_t shard = 0;
  /// The last parameter whose gradient is not finite; empty: all are.
  std::string not_finite = {};
  bool hit = false;              // as stage_compute has them,
  bool changed_buffers = false;  // of a watched step
};
TROUPE_FIELDS(stage_powers, serial, stage, powers, shard, not_finite, hit,
              changed_buffers)

// ---- rank -> coordinator
struct stage_done {
  std::int64_t serial = 0;
  stage_instance stage;
  stage_result result;
};
TROUPE_FIELDS(stage_done, serial, stage, result)
struct rank_done {
  std::int64_t serial = 0;
  std::int32_t data_rank = 0;
  std::int32_t rank = 0;
  std::vector<stage_done> stages = {};        // ascending
  std::vector<op_record> ops = {};            // as they started
  std::vector<message_record> messages = {};  // as taken; if wanted
  std::int64_t tokens = 0;                    // that entered the model here
  std::optional<memory_event> memory = {};    // if a monitor wants it
  /// In a step of gradients alone: when those of replicas are averaged.
  std::vector<event_handle> reduced = {};
};
TROUPE_FIELDS(rank_done, serial, data_rank, rank, stages, ops, messages, tokens,
              memory)

/// The report's rank, in a step.
inline event_source on_rank(event_source step, const rank_done& report) {
  step.data_rank = report.data_rank;
  step.rank = report.rank;
  return step;
}

// ---- anyone -> coordinator
struct op_failure {
  event_source source;
  std::string op;  // "1F2"; empty outside ops
  std::string reason;
  failure_kind kind = failure_kind::permanent;
  std::int32_t process = 0;
  /// Whether it is the run's failure. Else a link failed, which its other side
  /// may have ended for a cause that is still to be told.
  bool for_good = true;
};
TROUPE_FIELDS(op_failure, source, op, reason, kind, process)
struct interrupt_run {
  std::string reason;
  bool meets_again = false;  // the job goes on, as when a process is lost
};
TROUPE_FIELDS(interrupt_run, reason, meets_again)
struct stop_run {
  std::string reason;  // another process breaks the rules
};
/// Ends the run after the running step. One that takes too long for that is
/// ended at once: then this comes once more, with its serial.
struct finish_run {
  run_end end;
  std::int64_t overdue = 0;
  double within = 0;  // seconds for that step; 0: no limit
};
TROUPE_FIELDS(finish_run, end, within)
/// What a run was asked for.
struct run_requests {
  /// The run ends after the step that runs; empty again once its outcome has
  /// told.
  std::optional<run_end> ends = {};
  double within = 0;  // as in finish_run, of `ends`
  bool saves = false;
};
TROUPE_FIELDS(run_requests, ends, within, saves)
/// What a coordinator knows between two steps. Asked to hand it over, it
/// answers with that, for the coordinator that takes its place.
struct run_record : run_requests {
  std::string failed = {};  // why the run can't go on
  bool interrupted = false;
  failure_origin origin = {};    // of the failure
  std::int64_t last_serial = 0;  // of the step that was asked for last
  std::int64_t saved = 0;  // serial of the step after which all saved last
};
struct hand_over {};
/// Asks for a checkpoint after the step of this serial. Requests of a job's
/// processes for one step, or an earlier one, are one request.
struct save_run {
  std::int64_t serial = 0;
};
TROUPE_FIELDS(save_run, serial)

// ---- links -> coordinator
/// Another process of the job can't be reached any more.
struct peer_lost {
  std::int32_t process = 0;
  std::string reason;
  bool for_good = false;  // what ended it had its time to arrive
};
/// What a program chooses of a plan.
struct plan_shape {
  std::string schedule{};
  std::int32_t ranks = 0;
  std::int32_t stages = 0;
  std::int32_t copies = 0;
  std::int32_t microbatches = 0;
  std::int32_t slices = 0;
  bool global_norm = false;
};
TROUPE_FIELDS(plan_shape, schedule, ranks, stages, copies, microbatches, slices,
              global_norm)
/// A step as process 0 begins it. The others begin the same one, or the
/// programs have parted.
struct remote_begin {
  std::int64_t serial = 0;
  step_decision decision{};
  step_wishes wishes{};    // of the leader's monitors
  std::uint64_t plan = 0;  // its hash
  plan_shape shape{};
};
TROUPE_FIELDS(remote_begin, serial, decision, wishes, plan, shape)
/// How it ended, for the other processes.
struct remote_outcome {
  std::int64_t serial = 0;
  step_event event;
  std::string failure;
  std::optional<run_end> end = {};
  bool changes = false;
  bool saves = false;
  bool interrupted = false;
  failure_origin origin = {};  // as in run_record
  bool runs_again = false;     // as in step_outcome
};
TROUPE_FIELDS(remote_outcome, serial, event, failure, end, changes, saves,
              interrupted, origin, runs_again)

// ---- pipeline -> coordinator, which answers with the outcome
struct run_step {
  step_pointer step;
};
struct step_outcome {
  step_event event;
  std::vector<rank_done> ranks;  // by data rank, then rank
  /// Set if the step failed; the run can't go on then.
  std::string failure;
  bool interrupted = false;
  failure_origin origin = {};  // as in run_record
  /// The step is done, and the run ends with it.
  std::optional<run_end> end = {};
  bool changes = false, saves = false;  // as in step_report
  /// A watched step had a hit, and has not updated: it is run again.
  bool runs_again = false;
};
struct watchdog_tick {};

// ---- loader -> itself
struct prefetch_data {};

// ---- anyone -> hub -> monitors
struct publish_event {
  std::shared_ptr<const event> what;
};

}  // namespace troupe
