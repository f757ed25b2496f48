#include "troupe/cli/signals.hpp"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>

namespace troupe::cli {

namespace {

const char* name_of(int signal) {
  switch (signal) {
    case SIGINT:
      return "interrupted by Ctrl-C (SIGINT)";
    case SIGHUP:
      return "ended as its terminal was closed (SIGHUP)";
    default:
      return "ended by SIGTERM";
  }
}

}  // namespace

struct signal_watch::state {
  std::atomic<bool> ends{false};
  std::atomic<int> code{0};
  std::mutex mutex;
  std::function<void(const char*)> stop;

  void handle(int signal) {
    const std::scoped_lock lock(mutex);
    if (code.exchange(128 + signal) != 0)
      ::_exit(128 + signal);
    const auto* name = name_of(signal);
    if (!stop) {
      std::fprintf(stderr, "troupe: %s\n", name);
      ::_exit(128 + signal);
    }
    stop(name);
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
    for (int signal = 0; ::sigwait(&set, &signal) == 0;) {
      if (state->ends)
        return;
      state->handle(signal);
    }
  });
}

signal_watch::~signal_watch() {
  state_->ends = true;
  ::pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void signal_watch::on_signal(std::function<void(const char* name)> stop) {
  const std::scoped_lock lock(state_->mutex);
  state_->stop = std::move(stop);
}

void signal_watch::finish_first() {
  on_signal([](const char* name) {
    std::fprintf(stderr,
                 "troupe: %s; finishing first; a second signal ends it "
                 "at once\n",
                 name);
  });
}

int signal_watch::exit_code() const {
  return state_->code;
}

}  // namespace troupe::cli
