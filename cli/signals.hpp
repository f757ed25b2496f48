#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace troupe::cli {

/// A run ended by a signal, or by another process; carries the exit code.
class stopped_by_signal : public std::runtime_error {
 public:
  stopped_by_signal(const std::string& what, int code)
    : std::runtime_error(what), code_(code) {}
  int exit_code() const { return code_; }

 private:
  int code_;
};

/// Turns SIGINT, SIGTERM and SIGHUP (unless that is ignored, as under nohup)
/// into one call of `stop` on a thread of its own; a second signal ends the
/// process at once. Make it before any other thread, so that all inherit the
/// blocked signals.
class signal_watch {
 public:
  signal_watch();
  signal_watch(const signal_watch&) = delete;
  signal_watch& operator=(const signal_watch&) = delete;
  ~signal_watch();

  /// Sets the handler of a signal; an empty one prints the signal's name and
  /// ends the process.
  void on_signal(std::function<void(const char* name)> stop);
  /// Makes signals no longer end the run: the first one is printed and
  /// remembered while files are written, a second one ends the process.
  void finish_first();
  /// 0, or 128 + the received signal.
  int exit_code() const;

 private:
  struct state;
  std::shared_ptr<state> state_;
  std::thread thread_;
};

}  // namespace troupe::cli
