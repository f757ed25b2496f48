#include "troupe/actors/system/exit_watch.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"

namespace troupe {

struct watched_runs {
  std::mutex mutex;
  std::vector<exit_watch*> alive;
  std::atomic<bool> exiting = false;
  std::atomic<int> handlers = 0;
  const pid_t process = ::getpid();

  /// Never destroyed: used while static objects are.
  static watched_runs& get() {
    static auto& all = *new watched_runs;
    return all;
  }

  /// Whether no thread of a run is left.
  bool end_all() {
    const std::scoped_lock lock(mutex);
    exiting = true;
    bool ended = true;
    for (auto* each : std::exchange(alive, {})) {
      try {
        ended = each->end_() && ended;
      } catch (...) {
        log()->error("a run could not end when the process exited: {}",
                     thrown_text());
        ended = false;
      }
    }
    return ended;
  }
};

namespace {

/// A forked process has the runs, but not their threads.
void on_exit_of_process(int status, void*) {
  auto& runs = watched_runs::get();
  if (::getpid() != runs.process || runs.end_all())
    return;
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace

exit_watch::exit_watch(std::function<bool()> end) : end_(std::move(end)) {
  auto& runs = watched_runs::get();
  const std::scoped_lock lock(runs.mutex);
  runs.alive.push_back(this);
}

exit_watch::~exit_watch() {
  auto& runs = watched_runs::get();
  const std::scoped_lock lock(runs.mutex);
  std::erase(runs.alive, this);
}

void exit_watch::cover() {
  // More than the messages of most first steps; each costs 32 bytes.
  constexpr int wanted = 1024;
  auto& handlers = watched_runs::get().handlers;
  if (handlers < wanted && handlers++ < wanted)
    ::on_exit(on_exit_of_process, nullptr);
}

void exit_watch::stay_if_exiting() {
  if (watched_runs::get().exiting)
    for (;;)
      ::pause();
}

}  // namespace troupe
