#pragma once

#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// Thrown by a monitor to end the run, after the step that runs, with an error
/// that gives its reason.
class stop_training : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by a monitor to end the run, after the step that runs, as a success:
/// early stopping. The monitor sees on until then.
class end_training : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a monitor may keep others' memory and patience busy with.
struct monitor_limits {
  /// Events that may wait; what comes beyond is dropped, to whole steps, and
  /// a `dropped_event` tells.
  std::size_t waiting_events = 4096;
  /// Bytes of events that wait, or of tensors that it still holds when a step
  /// is over; beyond, the monitor is detached.
  std::int64_t held_bytes = std::int64_t{1} << 30;
  /// A call that takes longer counts as never returning: the monitor is
  /// detached and its thread left behind.
  double stuck_seconds = 30;
};

/// Something that watches a run: what it wants to see, and what to do with
/// it. Each attached monitor has a thread and a mailbox of its own: `see` runs
/// there, one event at a time, in causal order, and never delays a step. If it
/// throws (but `stop_training` and `end_training`), the monitor is detached
/// with a warning and the run goes on.
struct monitor {
  std::string name;
  subscription wants;
  std::function<void(const event&)> see;
  /// When it is detached or the run ends; writes files, for example.
  std::function<void()> finish = {};
  /// It has outgrown its limits, or not returned from a call, and is shown
  /// nothing further. Of a thread of the run's: it must not wait.
  std::function<void(const std::string& reason)> given_up = {};
  monitor_limits limits = {};
};

}  // namespace troupe
