#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "troupe/actors/monitoring/monitor_thread.hpp"
#include "troupe/actors/pipeline/local_actors.hpp"
#include "troupe/actors/step/prepared_plan.hpp"
#include "troupe/actors/step/run_health.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/actors/step/step_report.hpp"
#include "troupe/actors/system/exit_watch.hpp"
#include "troupe/engine/events/observer.hpp"

namespace troupe {

class recording;

/// Where any thread's requests to a run go, also while its actors are replaced.
struct run_control {
  std::shared_mutex mutex;         // exclusive: actors are replaced
  coordinator_handle coordinator;  // null: the run is over

  template <class Message>
  void tell(Message what) {
    const std::shared_lock lock(mutex);
    if (coordinator)
      caf::anon_send(coordinator, std::move(what));
  }
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
  /// Waits for monitors, as long as they may take: their hub is an actor, and
  /// those have to end soon.
  ~pipeline();
  pipeline(const pipeline&) = delete;
  pipeline& operator=(const pipeline&) = delete;

  /// Runs one step of the plan. Throws `op_failed` with the root failure, or
  /// `interrupted`; every later call throws the same.
  step_report run(const step_settings& settings, plan_pointer plan,
                  source_pointer source);
  /// A part of a step, whose settings tell what monitors want; gradients are
  /// recorded while they run. If the step runs again, all of it does: `whole`
  /// is its plan, if `plan` is not.
  step_report run_part(const step_settings& settings, plan_pointer plan,
                       source_pointer source = {},
                       std::shared_ptr<recording> recorded = {},
                       plan_pointer whole = {});
  /// Tells all processes, with the outcome of a step, that there is a new plan
  /// or hosting (`step_report::changes`); any thread, of the leading process.
  void announce_change();
  /// Replaces the actors by those of another hosting of the ranks, between two
  /// steps. Monitors stay attached, and what the run was asked for stays asked.
  /// All processes of a job make the call; it returns when all have new actors.
  void rehost(pipeline_options options);
  /// The same after a failure, for a job whose mesh has taken over connections
  /// of processes that have met again. Forgets the failure, and returns what
  /// the run was asked for, an end that a step has told of included: the
  /// processes are to agree on it, as some may know of nothing.
  run_requests restart(pipeline_options options);
  /// Asks for them, as `finish` and `request_save` do.
  void request(const run_requests& wanted);
  /// The cause of the run's failure; empty if it has not failed.
  std::optional<failure_origin> failed_of() const;
  /// The settings of a step of this plan, with what monitors want of it now.
  step_settings with_wishes(step_settings settings, const plan& of) const;

  /// Returns an id for `detach`. It sees whole steps, from the next one on.
  std::int64_t attach(monitor watcher);
  /// Waits until the monitor has seen all its events and has finished.
  /// Throws `io` with what went wrong while finishing, and `invalid_argument`
  /// in a call of that monitor.
  void detach(std::int64_t id);
  /// Detaches all monitors; throws what went wrong, of all of them.
  void finish_monitors();

  /// The state of the actors; any thread, without a message to any of them.
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
  /// Keeps the ops of a failed step from running, and returns whether none has
  /// begun to change the parameters that live here.
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
  /// `meets_again`: the run goes on after `restart`, in all processes.
  void interrupt(std::string reason, bool meets_again = false);

 private:
  const address_book& book() const { return *actors_->book(); }
  handed_over ask_actors() const;
  void replace_actors(pipeline_options options, const handed_over& so_far);
  void report_waits();
  bool can_run_again(const plan& what) const;
  void note_buffers(const step_outcome& outcome);
  step_outcome run_once(const step_pointer& step);
  void prepare(step_context& step);
  step_pointer second_run(const step_context& first,
                          const step_outcome& outcome, plan_pointer whole);
  void begin_step(plan_pointer plan);
  void end_step(const step_outcome& outcome);
  void leave_step();
  void await_step();
  bool close();
  bool end_at_exit();

  // pipeline_monitors.cpp
  /// Whether a step has thrown why the run ended.
  bool has_thrown_end() const;
  void remove_monitor(std::int64_t id);
  std::optional<std::int64_t> take_last_monitor();
  void let_finish(std::int64_t id);
  void leave_monitors();
  /// That of the actors, with control_->mutex. Throws `interrupted` once they
  /// end.
  const event_hub_handle& hub() const;

  pipeline_options options_;
  supervision watch_;
  prepared_plans plans_;
  std::shared_ptr<run_control> control_ = std::make_shared<run_control>();
  std::unique_ptr<local_actors> actors_;
  std::int64_t serial_ = 0;
  /// Whether the forwards of training steps have changed buffers; none: there
  /// was none yet.
  std::optional<bool> changes_buffers_;
  std::shared_ptr<step_gate> gate_;  // of a step that runs, or has failed
  std::atomic<bool> failed_ = false;
  failure_origin origin_;  // of the failure
  std::atomic<std::int64_t> next_monitor_ = 0;
  mutable std::mutex mutex_;  // of what follows
  std::map<std::int64_t, std::weak_ptr<monitor_thread>> monitors_;
  plan_pointer running_;  // or ran last
  bool in_step_ = false;
  std::int64_t begun_ = 0;  // steps
  std::condition_variable step_left_;
  std::string failure_;
  bool interrupted_ = false;
  std::optional<run_end> end_, asked_end_;  // with the step, and without
  bool end_was_thrown_ = false;             // to whoever wanted a further step
  std::optional<exit_watch> exits_;
};

}  // namespace troupe
