#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

/// Seconds from a signal to the end of a process, as Kubernetes grants them.
inline constexpr double usual_grace = 30;
/// By which `troupe launch` tells its processes the time that it grants them.
inline constexpr auto grace_variable = "TROUPE_GRACE";
/// Seconds that `troupe launch` grants; none: it has not started this process.
std::optional<double> granted_grace();

/// A signal that asks for something, as `signal_policy` decides.
struct signal_request {
  int number = 0;
  const char* name = "";
  /// False: SIGUSR2, which sets no time limit.
  bool hurries = true;
};

enum class watched_signals : std::uint8_t {
  ends,          // SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup)
  with_notices,  // SIGUSR1 and SIGUSR2, too
  with_suspend,  // SIGTSTP (Ctrl-Z), too
};

/// Receives the signals of this process on a thread of its own, and calls the
/// handlers there, one at a time. Handlers must not block. A repeated signal
/// ends the process at once, even if it runs as PID 1, for which the system has
/// no default actions. Make it before any other thread, so that all inherit the
/// blocked signals.
class signal_watch {
 public:
  /// Returns a line to print, or nothing.
  using handler = std::function<std::string(const signal_request& request)>;

  explicit signal_watch(watched_signals which = watched_signals::ends);
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;
  /// Unblocks the signals in the calling thread.
  ~signal_watch();

  /// For requests to end; an empty one prints the signal's name and ends the
  /// process.
  void on_end(handler end);
  /// For requests to save (SIGUSR1). One that came earlier is handled now.
  void on_save(handler save);
  /// For SIGTSTP.
  void on_suspend(std::function<void()> suspend);
  /// Runs before a repeated signal ends the process.
  void on_end_now(std::function<void()> before);
  /// Signals no longer end the run: they are printed and remembered while files
  /// are written.
  void finish_first();
  /// 0, or 128 + the last signal that asked for an end.
  int exit_code() const;
  /// Describes that signal; empty without one.
  std::string name() const;
  /// Time since a signal that asked for an end without delay, if there was one.
  std::optional<std::chrono::milliseconds> since_end() const;
  /// Throws `interrupted`, naming the activity, if there was a signal.
  void require_none(const char* during) const;
  /// Prints the text, and throws the end of the process by the received signal;
  /// the process ends soon in any case, as a reader of its output may be stuck.
  [[noreturn]] void end_process(const std::string& text) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
  std::thread thread_;
};

}  // namespace troupe::cli
