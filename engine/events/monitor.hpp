#pragma once

#include <functional>
#include <string>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// Something that watches a run: what it wants to see, and what to do with
/// it. Each attached monitor is an actor of its own: `see` runs on a worker
/// thread, one event at a time, and never delays a step. If it throws, the
/// monitor is detached with a warning and the run goes on.
struct monitor {
  std::string name;
  subscription wants;
  std::function<void(const event&)> see;
  /// When it is detached or the run ends; writes files, for example.
  std::function<void()> finish = {};
};

}  // namespace troupe
