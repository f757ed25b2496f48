#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/step/execution_options.hpp"
#include "troupe/actors/step/run_end.hpp"
#include "troupe/actors/step/step_report.hpp"
#include "troupe/engine/device/overlap_options.hpp"
#include "troupe/engine/generation/generation.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/parameters/sharding.hpp"
#include "troupe/engine/transport/job_meeting.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

class accelerator;
class mesh;
class microbatch_source;
class stored_checkpoint;
struct job_members;
struct monitor;
struct plan;
struct run_health;
struct run_progress;

using plan_pointer = std::shared_ptr<const plan>;
using source_pointer = std::shared_ptr<const microbatch_source>;

/// A job that goes on when processes are lost, and others join: its ranks go
/// back to copies of their states in the processes' memory, and the trained
/// parameters have the bits of a run without losses.
struct healing_options {
  /// Meets the processes of the job again, which may be others and host other
  /// ranks; null: the job ends with a lost process. `held`: the states in this
  /// process's memory; `why`: the op, if it is not for a loss. May throw, for
  /// good.
  std::function<job_meeting(const std::vector<held_rank>& held,
                            const std::optional<failed_op>& why)>
    rejoin{};
  /// Whether it may be called for an op's failure: an exception of a layer, a
  /// source, a device or a file.
  bool heals_ops = false;
  /// Asks for another hosting, at the next meeting; null: ranks move without
  /// one.
  std::function<void(std::vector<std::int32_t> hosting)> request_hosting{};
  /// Steps between two copies: at most so many are repeated after a loss.
  std::int64_t copy_every = 1;
  /// The number of the first meeting (job_meeting::epoch), and where the job's
  /// authority is, if it has one: for whoever asks.
  std::int64_t epoch = 0;
  std::string authority{};
};

struct trainer_options {
  troupe::schedule schedule{};
  /// A plan to run as it is, whose compute ops take the place of `schedule`:
  /// with reductions where there are replicas, and a global norm where
  /// gradients are clipped or the loss scale is dynamic. Null: the schedule is
  /// compiled.
  plan_pointer plan{};
  /// The processes of the job, of which this is one; null: this one alone.
  /// All of them make the same trainer and call the same members in the same
  /// order; each holds the stages of its own ranks.
  std::shared_ptr<mesh> job{};
  /// The process that hosts each rank: of the ranks of the first replica, then
  /// of the second, and so on; the same in all processes, of which some may
  /// host none. It changes no bit. Empty: in that order, equally many each,
  /// the first processes one more if they can't be divided.
  std::vector<std::int32_t> hosting{};
  /// Accelerators of this process, shared by its ranks round-robin; empty: all
  /// computes on the CPU.
  std::vector<std::shared_ptr<accelerator>> devices{};
  overlap_options overlap{};
  /// Tensors go from device to device between processes (by NCCL, which wants a
  /// device for each rank); else by way of the host.
  bool device_links = true;
  /// All of a training step up to the gradients is recorded once and launched
  /// at once from then on (see graph_steps): one process, one accelerator, and
  /// a model that does the same, on tensors of the same shapes, in each step.
  bool cuda_graphs = false;
  /// The layers of each stage; empty: balanced by parameters.
  stage_split split{};
  /// Copies of the pipeline whose gradients are averaged; each takes its own
  /// microbatches: replica d's k-th is number d x microbatches + k of a step.
  std::int32_t data_parallel = 1;
  /// What replicas hold shards of. The trained parameters are the same, but for
  /// the rounding of the norm where gradients are clipped.
  sharding_options sharding{};
  /// Which activations wait for their backward in the host's memory; the
  /// trained parameters are the same. A plan that offloads by itself is left as
  /// it is.
  offload_options offload{};
  troupe::numerics numerics{};
  execution_options execution{};
  healing_options healing{};

  /// Whether updates wait for the norm of all gradients.
  bool needs_norm() const {
    return numerics.needs_norm() || execution.holds_updates;
  }
};

class step_range;

/// Trains a model cut into stages by a schedule: compiles the plan, makes the
/// stages and their actors, and runs steps. One thread may use it at a time
/// (`stop` and `interrupt` from any). Errors are `troupe::error`; after a
/// failed step every further one fails alike.
class trainer {
 public:
  trainer(const model& layers, trainer_options options);
  /// Finishes the monitors that are attached, as `finish_monitors`; what went
  /// wrong there is logged. A monitor whose call does not end is left behind
  /// after some seconds (monitor_limits).
  ~trainer();
  trainer(trainer&&) noexcept;

  /// The next `steps` steps, each run as the range is walked:
  /// `for (const auto& step : run.train(text, 100)) ...` Throws
  /// `invalid_argument` for fewer than 0.
  step_range train(source_pointer source, std::int64_t steps);
  /// One step; with `skip_update` all but the update.
  step_report step(const source_pointer& source, bool skip_update = false);
  /// Mean losses over so many microbatches from the source's start, without
  /// gradients, rounded to fp32: the same number for every schedule, number of
  /// microbatches of a step, and of replicas. The last step is filled up with
  /// microbatches that don't count. Throws `invalid_argument` for fewer than 1.
  step_event evaluate(const source_pointer& source, std::int64_t microbatches);
  /// The last stage's outputs for these inputs, in the host's memory, without
  /// gradients, run by the calling thread; in all processes of a job the same.
  tensor_list infer(const tensor_list& inputs);

  /// Continues sequences of tokens, several at once: the ranks work in a
  /// pipeline over microbatches of prompts, and stages keep what earlier
  /// positions leave for later ones (keys and values), so that a token costs
  /// one position. The model maps ids int64 [rows, t] to logits [rows, t,
  /// vocabulary], its layers run in slices (stage_module::runs_in_slices), and
  /// its first stage alone reads the ids. A prompt's tokens depend on its
  /// request alone, for options.rows of 1 bit for bit. `listener` is called by
  /// this thread between two steps, in all processes of a job, which all get
  /// the same results. Throws `invalid_argument` as `require_legal` of the
  /// requests does, and what a step throws; `interrupted` once the run has
  /// ended (`stop`).
  std::vector<generated> generate(
    const std::vector<generation_request>& requests,
    const generation_options& options = {},
    const generation_listener& listener = {});
  /// Throws what `generate` throws for a model that can't be continued.
  void require_generation() const;

  /// Attaches a monitor, which sees whole steps; any thread, also while a step
  /// runs. Throws `invalid_argument` for an invalid subscription.
  std::int64_t attach(monitor watcher);
  /// Waits until the step that runs has ended (at most for
  /// time_limits::finish), and until the monitor has seen its events and has
  /// finished: it sees all of that step. Any thread but those that run the
  /// step. Throws `io` with what went wrong there, and `invalid_argument` for
  /// an id that is not attached and in a call of that monitor, as
  /// `finish_monitors` does in a call of any.
  void detach(std::int64_t id);
  /// Lets all monitors finish what they write; throws `io` if one can't.
  void finish_monitors();
  /// Observes tensors for monitors in every n-th step only; any thread. Throws
  /// `invalid_argument` for fewer than 1.
  void observe_every(std::int64_t steps);
  /// Ends the run after the running step, or the next one; any thread. In
  /// a job all processes end after the same step. If it takes longer than
  /// `within` seconds it is interrupted; 0: never, until a later call sets a
  /// limit; none: time_limits::finish. Throws `invalid_argument` for fewer.
  void stop(std::string reason, std::optional<double> within = {});
  /// Asks all processes of a job to save after the step that runs, or the next
  /// one; any thread.
  void request_save();
  /// Whether that was asked for by the end of the last step, in all processes
  /// alike; resets it.
  bool take_save_request();
  /// Set once a step was the last one, by `stop` or by a monitor: `train` then
  /// ends, or throws where a monitor has failed the run, as further steps do
  /// but after a success. The parameters are those of that step.
  std::optional<run_end> ended() const;
  /// Ends the running step with `interrupted`, halfway; any thread.
  void interrupt(std::string reason);
  /// How the actors are now (actors/step/run_health.hpp); any thread, and no
  /// step waits for it.
  run_health health() const;

  /// Parameters of the first replica under their unsplit names, in model
  /// order, as far as they live here. Handles: they change with the next step.
  /// Handles, or copies where parameters are sharded: then all processes of a
  /// job make the call.
  parameter_list parameters() const;
  /// Elements of the parameters of the whole model.
  std::int64_t parameter_count() const;
  /// The name of a parameter that holds a NaN or an infinity; empty: none does.
  /// All processes of a job make the call, and get the same name.
  std::string not_finite() const;
  /// All of them, for the process that leads the job; empty for the others.
  parameter_list gather_parameters() const;
  /// Copies values of the whole model into all replicas. Throws
  /// `invalid_checkpoint`.
  void load(const parameter_list& values, const std::string& origin);
  /// Throws `mismatch` naming the first parameter in which replicas, or copies
  /// of a stage, differ.
  void check_replicas() const;

  /// After a call that has thrown this: whether the job goes on, as a process
  /// was lost, an op failed that is to be run again, or `regroup` was asked
  /// for, and the processes have met again (healing_options). The run is then
  /// at the newest step of which all states are left (`progress`), which may be
  /// before the last one. All processes of a job make the call; one that was
  /// started again, or is new, is there when its trainer has been made. False:
  /// the failure is for good. Throws `op_failed` if a state is lost, and what
  /// `rejoin` throws.
  bool heal(const error& reason);
  /// Whether `heal` would let the job go on; changes nothing. If a link has
  /// failed, may wait for some seconds for the loss of a process to be seen
  /// here.
  bool can_heal(const error& reason);
  /// Lets the processes of the job meet again, as the epoch `ends` is to end
  /// (job_meeting::epoch): the next call of `step` throws in all of them,
  /// before it computes, and `heal` is to be called. `at_once`: the step that
  /// runs is given up. Does nothing if that epoch is over. Any thread, in all
  /// processes.
  void regroup(std::int64_t ends, bool at_once = false);
  /// Whether the run goes on from copies of states, since its trainer was made
  /// or has healed: then nothing is to be loaded. The same in all processes.
  bool recovered() const;
  /// The step after which the job's processes last evaluated, as far as those
  /// that met know; -1: none. A loss may have cut a later evaluation off.
  std::int64_t evaluated_after() const;
  /// In a job that heals: the outcomes of the newest steps and evaluations that
  /// this process took part in, at most 16, none later than progress().step. A
  /// leading process that was lost may not have written them.
  std::vector<step_event> latest_outcomes() const;

  // For checkpoints, between two steps, or after one that was interrupted if
  // `loses_last_step` returns no reason.

  /// After a failed or interrupted step: why the parameters and the
  /// optimizer's state that live here may no longer be those of the step
  /// before; empty if they are, so that they can be saved. No op of the failed
  /// step begins from then on. Waits for ops that run, where they may write
  /// what is saved, for at most so many seconds.
  std::string loses_last_step(double longest) const;

  run_progress progress() const;  // engine/checkpoint/manifest.hpp
  /// Copies in host memory, by rank, of the parameters, the buffers and the
  /// optimizer's state of the first replica's ranks that live here; names as
  /// manifest.hpp has them.
  std::map<std::int32_t, parameter_list> snapshot() const;
  /// Goes on from a checkpoint, whatever the shape of the run that made it; all
  /// processes of a job call it. Steps then have the bits that they would have
  /// had there, if they sum gradients alike. Throws `io` and, naming what is
  /// missing or does not fit, `invalid_checkpoint`; the trainer is unusable
  /// afterwards.
  void restore(const stored_checkpoint& from);

  /// Where the next step reads: microbatches taken so far by all replicas.
  std::int64_t position() const;
  /// Throws `invalid_argument` for a number below 0.
  void set_position(std::int64_t microbatches);

  /// Runs training steps by another order of the same ops from the next step
  /// on, in a job from the one after the step that all processes learn of it:
  /// the same placement, microbatches and slices, so that the parameters get
  /// the same bits. Any thread, in a job of the leading process. Throws
  /// `invalid_argument` for another shape or updates within a step, and with
  /// cuda_graphs; otherwise as the trainer's making does.
  void replan(const schedule& order);

  /// Lets other processes host the ranks from the next step on, in a job of
  /// several: as options.hosting names them. Parameters and the optimizer's
  /// state move there; no bit changes. Processes learn of it as of `replan`.
  /// Any thread of the leading process. Throws `invalid_argument` for a hosting
  /// that is not one of this job, and in other processes.
  void rehost(std::vector<std::int32_t> hosting);
  /// `rehost` with one rank, by its number in `hosting`, in another process.
  void move(std::int32_t rank, std::int32_t process);
  /// `rehost` with no rank in this process: the others that host fewest get
  /// them. It stays in the job.
  void drain(std::int32_t process);
  /// The process that hosts each rank from the next step on; any thread.
  std::vector<std::int32_t> hosting() const;
  /// The number of the last meeting of the job's processes
  /// (job_meeting::epoch); any thread.
  std::int64_t epoch() const;
  /// The processes of the job as of that meeting, and the copies of states in
  /// their memory (actors/job/job_members.hpp); any thread.
  job_members members() const;

  /// The one of the last step, or of the next one before the first
  /// (engine/plan/plan.hpp).
  const troupe::plan& plan() const;
  plan_pointer shared_plan() const;
  double loss_scale() const;
  /// The options that the trainer was constructed with.
  const trainer_options& options() const;
  /// Names of tied parameters: the name that is stored by that of each alias.
  const std::map<std::string, std::string>& aliases() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Steps that run as they are walked over; an input range of step_event.
class step_range {
 public:
  step_range(trainer& run, source_pointer source, std::int64_t steps)
    : run_(&run), source_(std::move(source)), steps_(steps) {}

  class iterator {
   public:
    using value_type = step_event;
    using difference_type = std::ptrdiff_t;

    explicit iterator(step_range& range) : range_(&range) { next(); }
    const step_event& operator*() const { return range_->current_; }
    iterator& operator++() {
      next();
      return *this;
    }
    void operator++(int) { next(); }
    bool operator==(std::default_sentinel_t) const { return done_; }

   private:
    void next();
    step_range* range_;
    bool done_ = false;
  };

  iterator begin() { return iterator{*this}; }
  static std::default_sentinel_t end() { return {}; }

 private:
  trainer* run_;
  source_pointer source_;
  std::int64_t steps_;
  std::int64_t taken_ = 0;
  step_event current_;
};

}  // namespace troupe
