// How a pipeline's monitors come and go.
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "troupe/actors/pipeline/pipeline_state.hpp"

namespace troupe {

std::int64_t pipeline::attach(monitor watcher) {
  const auto id = ++impl_->next_monitor;
  auto stop = [coordinator = impl_->book().coordinator,
               within = impl_->watch.limits.finish](run_end why) {
    caf::anon_send(coordinator,
                   finish_run{.end = std::move(why), .within = within});
  };
  auto spent = [board = impl_->watch.events](std::int64_t ns) {
    board->spent(ns);
  };
  const auto thread = std::make_shared<monitor_thread>(
    std::move(watcher), std::move(stop), std::move(spent));
  ask<bool>(impl_->actors.system(), impl_->book().hub,
            attach_monitor{id, thread});
  const std::scoped_lock lock(impl_->mutex);
  impl_->monitors.emplace(id, thread);
  return id;
}

void pipeline::detach(std::int64_t id) {
  const bool in_step = impl_->forget(id);
  const auto ask_hub = [&](bool after_step) {
    return ask<detached_monitor>(impl_->actors.system(), impl_->book().hub,
                                 detach_monitor{id, after_step})
      .what;
  };
  if (in_step) {
    ask_hub(true);
    impl_->await_step();
  }
  const auto monitor = ask_hub(false);
  if (!monitor)
    return;
  const auto trouble = monitor->finish();
  const bool told = monitor->stopped() && impl_->told();
  if (!trouble.empty() && !told)
    fail(error_code::io, "monitor {}: {}", monitor->name(), trouble);
}

void pipeline::finish_monitors() {
  {
    const std::scoped_lock lock(impl_->mutex);
    for (const auto& [id, thread] : impl_->monitors)
      impl::require_other_thread(thread);
  }
  std::vector<std::string> troubles;
  while (const auto last = impl_->last_monitor()) {
    try {
      detach(*last);
    } catch (const error& reason) {
      troubles.emplace_back(reason.what());
    }
  }
  if (!troubles.empty())
    fail(error_code::io, "{}", fmt::join(troubles, "; "));
}

run_health pipeline::health() const {
  const std::scoped_lock lock(impl_->mutex);
  run_health now{impl_->in_step, impl_->failure, impl_->interrupted,
                 impl_->end};
  if (impl_->running)
    now.ranks = impl_->watch.progress->look(*impl_->running);
  for (const auto& [id, thread] : impl_->monitors)
    if (const auto monitor = thread.lock())
      now.monitors.push_back(monitor->health());
  return now;
}

}  // namespace troupe
