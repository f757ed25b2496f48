#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <string>

#include "troupe/engine/device/stream.hpp"

namespace troupe {

/// The call that a communicator is waiting for, and for how long.
struct stuck_call {
  std::string call;  // as given by `describe`
  double seconds = 0;
  std::size_t behind = 0;  // calls that wait behind it
};

/// "edge 0->1 is stuck: send of Float[4] to 1 (0F3) for 60 s, with 2 calls
/// behind it".
std::string describe(const std::string& communicator, const stuck_call& stuck);

/// Tracks the calls of one communicator until they are done, in order, and
/// reports a stuck one. The launcher notes calls, and any thread may look,
/// without waiting for the device.
///
/// A call's time begins when it is first in line, so a call that is enqueued
/// early is not blamed for those before it.
class communicator_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  explicit communicator_watch(std::chrono::duration<double> time_out)
    : time_out_{time_out} {}

  /// Notes a call given to a stream, which is done at `done`; forgets calls
  /// that are done.
  void note(std::string call, event_handle done, time_point now);

  /// Forgets calls that are done; returns the first remaining one if it has
  /// been first in line for longer than the time-out. Passes on a device's
  /// `error`, which names the call.
  std::optional<stuck_call> look(time_point now);

 private:
  struct noted {
    std::string call;
    event_handle done;
  };

  bool first_is_done() const;
  void forget_what_is_done(time_point now);

  const std::chrono::duration<double> time_out_;
  mutable std::mutex mutex_;
  std::deque<noted> calls_;
  time_point first_since_{};
};

}  // namespace troupe
