#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

using event_pointer = std::shared_ptr<const event>;

/// A monitor at work: its mailbox, bounded, and its thread. It is no actor of
/// CAF's, as one that never returns must neither keep a worker nor the end of
/// the run waiting: its thread is left behind then.
class monitor_thread {
 public:
  /// `stop` is called, from the thread, with the reason of `stop_training`.
  monitor_thread(monitor what, std::function<void(std::string)> stop);
  /// Without `finish` before, what waits is thrown away.
  ~monitor_thread();
  monitor_thread(const monitor_thread&) = delete;
  monitor_thread& operator=(const monitor_thread&) = delete;

  const std::string& name() const;
  const subscription& wants() const;

  /// Hands an event over, or drops it; takes no longer than another one's
  /// push or pop. Returns why the monitor is to be detached; empty: it goes
  /// on.
  std::string push(const event_pointer& what);
  /// Whether it ended the run.
  bool stopped() const;
  /// Lets it see what waits, and finish. Returns what went wrong, or empty.
  std::string finish();

  /// Seconds of processor time that it took so far.
  double processor_seconds() const;

 private:
  struct state;
  static void run(const std::shared_ptr<state>& shared);

  std::shared_ptr<state> state_;
  std::thread thread_;
};

}  // namespace troupe
