#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>

#include "troupe/actors/job/run_texts.hpp"
#include "troupe/actors/monitoring/event_hub.hpp"
#include "troupe/actors/monitoring/message_types.hpp"
#include "troupe/actors/pipeline/local_actors.hpp"
#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/actors/step/prepared_plan.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/actors/system/exit_watch.hpp"
#include "troupe/actors/system/logger_scope.hpp"
#include "troupe/engine/events/log.hpp"

namespace troupe {

struct pipeline::impl {
  explicit impl(pipeline_options of_run);

  /// Monitors are waited for here, as long as they may take: their hub is an
  /// actor, and those have to end soon.
  ~impl() {
    exits.reset();
    close();
  }

  /// Returns whether no thread of the run is left.
  bool close() {
    if (options.job)
      options.job->stop();
    for (const auto& [id, thread] : monitors)
      if (const auto monitor = thread.lock())
        monitor->leave();
    return actors.end();
  }

  void report_waits() {
    if (options.execution.limits.stall > 0)
      options.job->report_waits(
        std::chrono::milliseconds(
          static_cast<std::int64_t>(options.execution.limits.stall * 1000)),
        [layout = options.layout()](std::int32_t sender, double seconds) {
          log()->warn("this process has waited {:.3g} s for a message of {}",
                      seconds, in_words(sender, layout));
        });
  }

  const address_book& book() const { return *actors.book(); }

  /// Whether a step has thrown why the run ended.
  bool told() const {
    const std::scoped_lock lock(mutex);
    return failed || told_end;
  }

  /// A monitor that waits for its own end would wait for ever.
  static void require_other_thread(const std::weak_ptr<monitor_thread>& ends) {
    const auto monitor = ends.lock();
    if (monitor && monitor->runs_this())
      fail(error_code::invalid_argument,
           "monitor {} can't be detached by one of its own calls, which would "
           "have to end first; detach it from another thread",
           monitor->name());
  }

  /// Whether a step runs.
  bool forget(std::int64_t id) {
    const std::scoped_lock lock(mutex);
    const auto found = monitors.find(id);
    if (found == monitors.end())
      fail(error_code::invalid_argument, "no monitor {} is attached", id);
    require_other_thread(found->second);
    monitors.erase(found);
    return in_step;
  }

  std::optional<std::int64_t> last_monitor() {
    const std::scoped_lock lock(mutex);
    return monitors.empty() ? std::nullopt
                            : std::optional{monitors.rbegin()->first};
  }

  void begin_step(plan_pointer plan) {
    exit_watch::cover();
    exit_watch::stay_if_exiting();
    const std::scoped_lock lock(mutex);
    running = std::move(plan);
    in_step = true;
    ++begun;
  }

  void leave_step() {
    {
      const std::scoped_lock lock(mutex);
      in_step = false;
    }
    step_left.notify_all();
    exit_watch::stay_if_exiting();
    exit_watch::cover();
  }

  /// Until the step that runs has ended, or for as long as an end may take.
  void await_step() {
    std::unique_lock lock(mutex);
    step_left.wait_for(lock, std::chrono::duration<double>(watch.limits.finish),
                       [&, now = begun] { return !in_step || begun != now; });
  }

  /// While the process exits; see exit_watch.hpp.
  bool end_at_exit(pipeline& self) {
    self.interrupt("the process exits");
    await_step();
    if (const std::scoped_lock lock(mutex); in_step)
      return false;
    try {
      self.finish_monitors();
    } catch (const error& reason) {
      log()->warn("when the process exited: {}", reason.what());
    }
    const std::chrono::milliseconds longest(
      static_cast<std::int64_t>(1000 * watch.limits.leave));
    return (!gate || gate->await_ops(longest)) && close();
  }

  void end_step(const step_outcome& outcome) {
    failed = !outcome.failure.empty();
    if (!failed)
      gate.reset();
    const std::scoped_lock lock(mutex);
    failure = outcome.failure;
    interrupted = outcome.interrupted;
    if (outcome.end)
      end = outcome.end;
  }

  pipeline_options options;
  supervision watch;
  prepared_plans plans;
  local_actors actors;
  std::int64_t serial = 0;
  std::shared_ptr<step_gate> gate;  // of a step that runs, or has failed
  std::atomic<bool> failed = false;
  std::atomic<std::int64_t> next_monitor = 0;
  mutable std::mutex mutex;  // of what follows
  std::map<std::int64_t, std::weak_ptr<monitor_thread>> monitors;
  plan_pointer running;  // or ran last
  bool in_step = false;
  std::int64_t begun = 0;  // steps
  std::condition_variable step_left;
  std::string failure;
  bool interrupted = false;
  std::optional<run_end> end;
  bool told_end = false;  // to whoever wanted a further step
  std::optional<exit_watch> exits;
};

/// An actor's answer, for which the calling thread waits. Throws `internal` if
/// the actor has terminated.
template <class Answer, class Handle, class... Request>
Answer ask(caf::actor_system& system, const Handle& whom,
           Request&&... request) {
  const logger_scope restored;
  const caf::scoped_actor self(system);
  Answer answer{};
  self->request(whom, caf::infinite, std::forward<Request>(request)...)
    .receive([&](Answer& received) { answer = std::move(received); },
             [&](const caf::error& reason) {
               fail(error_code::internal, "an actor has terminated: {}",
                    caf::to_string(reason));
             });
  return answer;
}

}  // namespace troupe
