#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace troupe {

/// Keeps the ops of an abandoned step from running, so that the parameters that
/// live in this process can be read, and tells whether the step has changed
/// any. Stages enter it for each op; all ranks of a process share one for each
/// step. Any thread.
class step_gate {
 public:
  /// An op may run; false: the step was abandoned. `leave` follows an entry.
  bool enter() {
    if ((state_.fetch_add(one_op) & closed) == 0)
      return true;
    leave();
    return false;
  }
  void leave() { state_.fetch_sub(one_op); }

  /// The op that runs may change parameters from now on; false: the step was
  /// abandoned meanwhile.
  bool begin_update() { return (state_.fetch_or(changed) & closed) == 0; }

  /// Abandons the step. Returns whether parameters, optimizer and buffers are
  /// those from before it: no op has begun to change them.
  bool close() { return (state_.fetch_or(closed) & changed) == 0; }

  /// Waits until no op runs, for at most so long; returns whether none does.
  bool await_ops(std::chrono::milliseconds longest) const {
    const auto until = std::chrono::steady_clock::now() + longest;
    while (state_.load() >= one_op) {
      if (std::chrono::steady_clock::now() >= until)
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  static constexpr std::uint32_t closed = 1, changed = 2, one_op = 4;

  std::atomic<std::uint32_t> state_{0};
};

}  // namespace troupe
