#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace troupe::cli {

/// Ends the process with an exit code: stopped by a signal, or by another
/// process. Without a text the reason has been printed.
class process_end : public std::runtime_error {
 public:
  process_end(const std::string& what, int code)
    : std::runtime_error(what), code_(code) {}
  int exit_code() const { return code_; }

 private:
  int code_;
};

/// Ends this process with that code after a while, in any case: a running op
/// can't be interrupted, and its result is no longer needed.
inline void end_soon(
  int code, std::chrono::milliseconds patience = std::chrono::seconds(2)) {
  std::thread([code, patience] {
    std::this_thread::sleep_for(patience);
    ::_exit(code);
  }).detach();
}

/// Turns the first SIGINT, SIGTERM or SIGHUP (unless that is ignored, as under
/// nohup) into one call of a handler on a thread of its own; the system ends
/// the process at the second one, even if the handler is stuck. Make it before
/// any other thread, so that all inherit the blocked signals.
class signal_watch {
 public:
  /// Returns a line to print, or nothing. Must not block.
  using handler = std::function<std::string(const char* name)>;

  signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;
  /// Unblocks the signals in the calling thread.
  ~signal_watch();

  /// Sets the handler; an empty one prints the signal's name and ends the
  /// process.
  void on_signal(handler stop);
  /// Makes the first signal no longer end the run: it is printed and remembered
  /// while files are written.
  void finish_first();
  /// 0, or 128 + the received signal.
  int exit_code() const;
  /// Describes the received signal; empty without one.
  std::string name() const;
  /// Throws `interrupted`, naming the activity, if there was a signal.
  void require_none(const char* during) const;
  /// Throws the end of the process by the received signal; the process ends
  /// soon in any case, as a reader of its output may be stuck.
  [[noreturn]] void end_process(const std::string& text) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
  std::thread thread_;
};

}  // namespace troupe::cli
