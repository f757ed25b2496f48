#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/job/admission.hpp"
#include "troupe/actors/job/device_links.hpp"
#include "troupe/actors/job/run_devices.hpp"
#include "troupe/actors/monitoring/event_board.hpp"
#include "troupe/actors/step/execution_options.hpp"
#include "troupe/actors/step/run_end.hpp"
#include "troupe/actors/step/run_health.hpp"
#include "troupe/actors/step/step_report.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/parameters/sharding.hpp"
#include "troupe/engine/stage/stage.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

class recording;

struct pipeline_options {
  /// The same for all plans that will run.
  troupe::placement placement;
  /// The processes of the job, of which this is one; null: this one alone.
  std::shared_ptr<mesh> job;
  /// The plans that a job will run: other processes may begin one before this
  /// process does.
  std::shared_ptr<job_plans> plans;
  /// stages[data rank][instance], as `placement::instances` lists them; null
  /// where they live in other processes.
  std::vector<std::vector<stage>> stages;
  /// By stage: whether it reads a microbatch's inputs, targets or arguments.
  std::vector<bool> needs_data;
  /// By stage: whether it computes losses.
  std::vector<bool> has_losses;
  item_counter counter;  // null: no loss counts its items beforehand
  /// By trained tie: the stages of its holders, in model order.
  std::vector<std::vector<std::int32_t>> ties;
  run_devices devices;  // of the stages; empty: the CPU
  /// To devices of other processes; null: tensors go there by the host.
  std::shared_ptr<device_links> links;
  troupe::numerics numerics;
  sharding_options sharding;
  execution_options execution;

  job_layout layout() const;
};

/// The actors of one run that live in this process, on a pool of threads of
/// their own. Where a job has several processes, all of them run the same
/// steps in the same order; the leader's monitors see the ranks of all.
/// Steps are run one after the other by the calling thread's wish; all
/// members but `attach`, `detach`, `publish`, `health`, `finish` and
/// `interrupt` are to be called by one thread at a time.
class pipeline {
 public:
  explicit pipeline(pipeline_options options);
  ~pipeline();
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;

  /// Runs one step of the plan. Throws `op_failed` with the root failure, or
  /// `interrupted`; every later call throws the same.
  step_report run(const step_settings& settings, plan_pointer plan,
                  source_pointer source);
  /// A part of a step, whose settings tell what monitors want; gradients are
  /// recorded while they run.
  step_report run_part(const step_settings& settings, plan_pointer plan,
                       source_pointer source = {},
                       std::shared_ptr<recording> recorded = {});
  /// Tells all processes, with the outcome of a step, that there is a new plan
  /// (`step_report::replans`); any thread, of the leading process.
  void announce_plan();
  /// The settings of a step, with what monitors want of it now.
  step_settings with_wishes(step_settings settings) const;

  /// Returns an id for `detach`. It sees whole steps, from the next one on.
  std::int64_t attach(monitor watcher);
  /// Waits until the monitor has seen all its events and has finished.
  /// Throws `io` with what went wrong while finishing, and `invalid_argument`
  /// in a call of that monitor.
  void detach(std::int64_t id);
  /// Detaches all monitors; throws what went wrong, of all of them.
  void finish_monitors();

  /// How the actors are now; any thread, without a message to any of them.
  run_health health() const;

  /// Hands an event to the monitors; any thread.
  void publish(event what);

  /// Publishes observed tensors, for stages; any thread.
  observer::publisher tensor_outlet() const;
  /// How often tensors are observed; any thread.
  event_board& board();

  /// Ends the run with the step that runs, or the next; from any thread, as
  /// `interrupt`. A step that takes longer than so many seconds is interrupted;
  /// 0: none is.
  void finish(run_end why, double within);
  /// Lets the outcome of the step that runs, or of the next one, ask all
  /// processes to save (`step_report::saves`); from any thread.
  void request_save();
  /// After a failed step: keeps its ops from running, and returns whether none
  /// has begun to change the parameters that live here.
  bool abandon_step();
  /// Waits until no op of an abandoned step runs, for at most so long; returns
  /// whether none does.
  bool await_ops(std::chrono::milliseconds longest) const;
  /// Set once a step was the last one, in all processes of a job alike.
  std::optional<run_end> ended() const;
  /// Throws why no further step is to run, if a step was the last one: but for
  /// a success.
  void require_not_ended();

  /// Ends the running step with `interrupted`; from any thread, not from a
  /// signal handler.
  void interrupt(std::string reason);

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
