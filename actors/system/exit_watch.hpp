#pragma once

#include <functional>

namespace troupe {

/// Ends a run that is alive when the process exits: `exit`, also by a return
/// from `main`, destroys static objects, those of CAF and LibTorch among them,
/// while the run's threads compute. Any thread.
class exit_watch {
 public:
  /// `end` is called by the thread that calls `exit`, once. It ends the run
  /// within a bounded time, and returns whether no thread of it is left;
  /// otherwise the process ends at once, without destroying static objects.
  explicit exit_watch(std::function<bool()> end);
  ~exit_watch();
  exit_watch(const exit_watch&) = delete;
  exit_watch& operator=(const exit_watch&) = delete;

  /// When a run is made, before and after its steps and ops; has no effect
  /// after the first thousand. `exit` destroys the newest static objects
  /// first, so those that the first ops make have to outlive the run, too.
  static void cover();
  /// Does not return once `exit` was called, in the threads that it did not
  /// wait for.
  static void stay_if_exiting();

 private:
  friend struct watched_runs;
  std::function<bool()> end_;
};

}  // namespace troupe
