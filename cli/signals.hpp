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

/// Thrown to end the process with an exit code, when a signal or another
/// process stopped it. Without a text, the reason has been printed already.
class process_end : public std::runtime_error {
 public:
  process_end(const std::string& what, int code)
    : std::runtime_error(what), code_(code) {}
  int exit_code() const { return code_; }

 private:
  int code_;
};

/// Ends this process with that code after a while in any case: a running op
/// can't be interrupted, and its result is no longer needed.
inline void end_soon(
  int code, std::chrono::milliseconds patience = std::chrono::seconds(2)) {
  std::thread([code, patience] {
    std::this_thread::sleep_for(patience);
    ::_exit(code);
  }).detach();
}

/// Default seconds from a signal to the end of a process, as granted by
/// Kubernetes.
inline constexpr double usual_grace = 30;
/// The environment variable by which `troupe launch` tells its processes the
/// time that it grants them.
inline constexpr auto grace_variable = "TROUPE_GRACE";
/// The seconds that `troupe launch` grants; none if it has not started this
/// process.
std::optional<double> granted_grace();

/// A signal that requests an action, by `signal_policy`.
struct signal_request {
  int number = 0;
  const char* name = "";
  /// False for SIGUSR2, which sets no time limit.
  bool hurries = true;
};

enum class watched_signals : std::uint8_t {
  ends,          // SIGINT, SIGTERM, and SIGHUP unless it is ignored (nohup)
  with_notices,  // SIGUSR1 and SIGUSR2, too
  with_suspend,  // SIGTSTP (Ctrl-Z), too
};

/// Receives the signals of this process on a thread of its own, and calls the
/// handlers there, one at a time. Handlers must not block. A repeated signal
/// ends the process at once, even one with PID 1, for which the system has no
/// default actions. To be made before any other thread, so that all threads
/// inherit the blocked signals.
class signal_watch {
 public:
  /// Returns a line to print, or an empty string.
  using handler = std::function<std::string(const signal_request& request)>;

  explicit signal_watch(watched_signals which = watched_signals::ends);
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;
  /// Unblocks the signals in the calling thread.
  ~signal_watch();

  /// Sets the handler of requests to end; an empty one prints the signal's name
  /// and ends the process.
  void on_end(handler end);
  /// Sets the handler of requests to save (SIGUSR1), and calls it for an
  /// earlier request.
  void on_save(handler save);
  /// Sets the handler of a SIGTERM that the launcher of this process has not
  /// sent (0: it has none): the run goes on in other processes. Empty: it is a
  /// request to end.
  void on_drain(handler drain, pid_t launcher = 0);
  /// The run ends for such a SIGTERM after all.
  void end_drained();
  /// Sets the handler of SIGTSTP.
  void on_suspend(std::function<void()> suspend);
  /// Sets a function to call before a repeated signal ends the process.
  void on_end_now(std::function<void()> before);
  /// From now on signals no longer end the run: they are printed and remembered
  /// while files are written.
  void defer_signals();
  /// 0, or 128 + the number of the last signal that requested an end.
  int exit_code() const;
  /// Describes that signal; empty without one.
  std::string name() const;
  /// The time since a signal that requested an end with a time limit, if there
  /// was one.
  std::optional<std::chrono::milliseconds> since_end() const;
  /// Throws `interrupted`, naming the activity, if a signal has requested an
  /// end.
  void require_none(const char* during) const;
  /// Prints the text, and throws `process_end` for the received signal. The
  /// process ends soon in any case, even if the reader of its output is stuck.
  [[noreturn]] void end_process(const std::string& text) const;

 private:
  struct state;
  std::shared_ptr<state> state_;
  std::thread thread_;
};

}  // namespace troupe::cli
