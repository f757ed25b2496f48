#include "troupe/cli/signals.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

#include "troupe/base/error.hpp"

namespace troupe::cli {

namespace {

const char* name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "interrupted by Ctrl-C (SIGINT)";
    case SIGHUP:
      return "ended because its terminal was closed (SIGHUP)";
    default:
      return "ended by SIGTERM";
  }
}

}  // namespace

struct signal_watch::state {
  std::mutex mutex;
  std::condition_variable changed;
  bool ends = false;
  bool caught = false;
  std::atomic<int> code{0};
  handler stop;

  /// Handles the first signal; returns a line to print.
  std::string handle(int signal) {
    const std::scoped_lock lock(mutex);
    code = 128 + signal;
    if (stop)
      return stop(name_of(signal));
    std::fprintf(stderr, "troupe: %s\n", name_of(signal));
    ::_exit(128 + signal);
  }

  void await_end() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return ends; });
  }
};

namespace {

sigset_t watched() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  ::sigaddset(&set, SIGTERM);
  // If an ignored signal were blocked, it would still be waited for.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0
      && hangup.sa_handler != SIG_IGN)
    ::sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

signal_watch::signal_watch() : state_(std::make_shared<state>()) {
  const auto set = watched();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([state = state_, set] {
    int signal = 0;
    ::sigwait(&set, &signal);
    {
      const std::scoped_lock lock(state->mutex);
      if (state->ends)
        return;
      state->caught = true;
      ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    }
    const auto line = state->handle(signal);
    if (!line.empty())
      std::fprintf(stderr, "troupe: %s\n", line.c_str());
    state->await_end();
  });
}

signal_watch::~signal_watch() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ends = true;
    if (!state_->caught)  // the thread is in `sigwait`
      ::pthread_kill(thread_.native_handle(), SIGTERM);
  }
  state_->changed.notify_all();
  // A thread that can't print its line ends with the process.
  if (state_->caught)
    thread_.detach();
  else
    thread_.join();
  const auto set = watched();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void signal_watch::on_signal(handler stop) {
  const std::scoped_lock lock(state_->mutex);
  state_->stop = std::move(stop);
}

void signal_watch::finish_first() {
  on_signal([](const char* name) {
    return fmt::format("{}; finishing first; a second signal ends it at once",
                       name);
  });
}

int signal_watch::exit_code() const {
  return state_->code;
}

std::string signal_watch::name() const {
  const auto code = exit_code();
  return code == 0 ? "" : name_of(code - 128);
}

void signal_watch::require_none(const char* during) const {
  if (exit_code() != 0)
    fail(error_code::interrupted, "{} during {}", name(), during);
}

void signal_watch::end_process(const std::string& text) const {
  end_soon(exit_code());
  throw process_end(text, exit_code());
}

}  // namespace troupe::cli
