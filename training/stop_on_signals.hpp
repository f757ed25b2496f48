#pragma once

#include <memory>

namespace troupe {

class trainer;

/// Lets SIGINT and SIGTERM end a run after the step that runs, while it lives:
///
///     const stop_on_signals stopping(run);
///
/// `trainer::ended` then tells the signal's name, and `train` returns. A second
/// signal ends the process at once. At most one of them at a time in a process;
/// the signals' handlers of before return at its end.
class stop_on_signals {
 public:
  /// Throws `internal` if there is one already, and `io` where the process
  /// gets no pipe or thread for it.
  explicit stop_on_signals(trainer& run);
  ~stop_on_signals();
  stop_on_signals(const stop_on_signals&) = delete;
  stop_on_signals& operator=(const stop_on_signals&) = delete;

  /// 128 + the signal that has come, for the process's exit; 0: none has.
  int exit_code() const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
