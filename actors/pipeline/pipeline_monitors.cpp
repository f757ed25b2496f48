// How a pipeline's monitors come and go.
#include <fmt/ranges.h>

#include <iterator>
#include <string>
#include <vector>

#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

/// Throws in a call of the monitor: one that waits for its own end would wait
/// for ever.
void require_other_thread(const std::weak_ptr<monitor_thread>& ends) {
  const auto monitor = ends.lock();
  if (monitor && monitor->runs_this())
    fail(error_code::invalid_argument,
         "monitor {} can't be detached by one of its own calls, which would "
         "have to end first; detach it from another thread",
         monitor->name());
}

}  // namespace

bool pipeline::has_thrown_end() const {
  const std::scoped_lock lock(mutex_);
  return failed_ || end_was_thrown_;
}

void pipeline::remove_monitor(std::int64_t id) {
  const std::scoped_lock lock(mutex_);
  const auto place = monitors_.find(id);
  if (place == monitors_.end())
    fail(error_code::invalid_argument, "no monitor {} is attached", id);
  require_other_thread(place->second);
  monitors_.erase(place);
}

/// Another thread may detach monitors meanwhile.
std::optional<std::int64_t> pipeline::take_last_monitor() {
  const std::scoped_lock lock(mutex_);
  if (monitors_.empty())
    return std::nullopt;
  return monitors_.extract(std::prev(monitors_.end())).key();
}

std::int64_t pipeline::attach(monitor watcher) {
  const auto id = ++next_monitor_;
  auto stop = [control = control_, within = watch_.limits.finish](run_end why) {
    control->tell(finish_run{.end = std::move(why), .within = within});
  };
  auto spent = [board = watch_.events](std::int64_t ns) { board->spent(ns); };
  const auto thread = std::make_shared<monitor_thread>(
    std::move(watcher), std::move(stop), std::move(spent));
  {
    const std::shared_lock actors(control_->mutex);
    actors_->ask<bool>(hub(), attach_monitor{id, thread});
  }
  const std::scoped_lock lock(mutex_);
  monitors_.emplace(id, thread);
  return id;
}

void pipeline::detach(std::int64_t id) {
  remove_monitor(id);
  let_finish(id);
}

/// Lets a monitor see the step that runs, and finish.
void pipeline::let_finish(std::int64_t id) {
  const auto ask_hub = [&](bool after_step) {
    const std::shared_lock actors(control_->mutex);
    return actors_->ask<detached_monitor>(hub(), detach_monitor{id, after_step})
      .what;
  };
  ask_hub(true);
  await_step();
  const auto monitor = ask_hub(false);
  if (!monitor)
    return;
  const auto trouble = monitor->finish();
  const bool is_known = monitor->stopped() && has_thrown_end();
  if (!trouble.empty() && !is_known)
    fail(error_code::io, "monitor {}: {}", monitor->name(), trouble);
}

const event_hub_handle& pipeline::hub() const {
  if (!control_->coordinator)
    fail(error_code::interrupted, "the run has ended");
  return book().hub;
}

/// Another thread may detach monitors meanwhile.
void pipeline::leave_monitors() {
  std::vector<std::weak_ptr<monitor_thread>> all;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, thread] : monitors_)
      all.push_back(thread);
  }
  for (const auto& each : all)
    if (const auto monitor = each.lock())
      monitor->leave();
}

void pipeline::finish_monitors() {
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, thread] : monitors_)
      require_other_thread(thread);
  }
  std::vector<std::string> troubles;
  while (const auto last = take_last_monitor()) {
    try {
      let_finish(*last);
    } catch (const error& reason) {
      troubles.emplace_back(reason.what());
    }
  }
  if (!troubles.empty())
    fail(error_code::io, "{}", fmt::join(troubles, "; "));
}

run_health pipeline::health() const {
  const std::scoped_lock lock(mutex_);
  run_health now{in_step_, failure_, interrupted_, end_};
  if (running_)
    now.ranks = watch_.progress->look(*running_);
  for (const auto& [id, thread] : monitors_)
    if (const auto monitor = thread.lock())
      now.monitors.push_back(monitor->health());
  return now;
}

}  // namespace troupe
