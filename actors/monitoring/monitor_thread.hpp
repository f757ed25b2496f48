#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "troupe/actors/step/run_end.hpp"
#include "troupe/actors/step/run_health.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe {

using event_pointer = std::shared_ptr<const event>;

/// A monitor at work: its mailbox, bounded, and its thread. It is no actor of
/// CAF's, as one that never returns must neither keep a worker nor the end of
/// the run waiting: its thread is left behind then.
class monitor_thread {
 public:
  /// Both are called from the thread: `stop` with the reason of
  /// `stop_training` or `end_training`, `spent` with the processor time, in ns,
  /// that a call of the monitor took. Throws `device` without a thread.
  monitor_thread(monitor what, std::function<void(run_end)> stop,
                 std::function<void(std::int64_t)> spent);
  /// Leaves the monitor, unless it has finished.
  ~monitor_thread();
  monitor_thread(const monitor_thread&) = delete;
  monitor_thread& operator=(const monitor_thread&) = delete;

  const std::string& name() const;
  const subscription& wants() const;
  /// Whether the caller is a call of the monitor.
  bool runs_this() const;

  /// Hands an event over, or drops it; takes no longer than another one's
  /// push or pop. Returns why the monitor is to be detached; empty: it goes
  /// on.
  std::string push(const event_pointer& what);
  /// Its state, for reports; any thread.
  monitor_health health() const;
  void warn_that_it_ends(const std::string& reason) const;
  /// Whether it ended the run as a failure.
  bool stopped() const;
  /// Throws away what waits; a call that lasts is waited for, as in `finish`.
  void leave();
  /// Lets it see what waits, and finish. Returns what went wrong, or empty.
  std::string finish();

 private:
  struct state;
  static void run(const std::shared_ptr<state>& shared);
  static void run_safely(const std::shared_ptr<state>& shared);
  void wait_for_end();

  std::shared_ptr<state> state_;
  std::thread thread_;
  std::thread::id id_ = thread_.get_id();  // also once it is joined
};

}  // namespace troupe
