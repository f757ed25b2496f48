#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// Thrown by a monitor to end the run, after the current step, with an error
/// that gives its reason.
class stop_training : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown by a monitor to end the run, after the current step, as a success:
/// early stopping. The monitor sees events until then.
class end_training : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Limits on the memory and time that a monitor may use.
struct monitor_limits {
  /// Waiting events; further ones are dropped, up to whole steps, and a
  /// `dropped_event` reports it.
  std::size_t waiting_events = 4096;
  /// Bytes of waiting events, or of tensors that it still holds when a step is
  /// over, with those that it keeps for itself; beyond, the monitor is
  /// detached.
  std::int64_t held_bytes = std::int64_t{1} << 30;
  /// A call that takes longer counts as stuck: the monitor is detached and its
  /// thread abandoned.
  double stuck_seconds = 30;
};

/// An observer of a run: what it wants to see, and what to do with it. Each
/// attached monitor has a thread and a mailbox of its own: `see` runs there,
/// one event at a time, in causal order, and never delays a step. If it throws
/// (except `stop_training` and `end_training`), the monitor is detached with a
/// warning and the run goes on.
struct monitor {
  std::string name{};
  subscription wants{};
  std::function<void(const event&)> see{};
  /// Called when it is detached or the run ends; writes files, for example.
  std::function<void()> finish = {};
  /// Called when it has exceeded its limits, or has not returned from a call,
  /// and gets no further events. Runs on a thread of the run's: it must not
  /// wait.
  std::function<void(const std::string& reason)> given_up = {};
  /// Gets warnings about it in place of the log; any thread, and must not wait.
  std::function<void(const std::string& text)> warn = {};
  /// Bytes that it keeps for itself, without tensors' memory; called where
  /// `see` is, after a step.
  std::function<std::int64_t()> kept_bytes = {};
  monitor_limits limits = {};
};

}  // namespace troupe
