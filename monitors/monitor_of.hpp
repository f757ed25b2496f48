#pragma once

#include <memory>
#include <string>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// A monitor whose state sees the events, and whose sink is flushed at the end.
template <class State>
monitor monitor_of(std::string name, std::shared_ptr<State> state,
                   sink_pointer sink) {
  monitor made;
  made.name = std::move(name);
  made.see = [state = std::move(state)](const event& what) {
    state->see(what);
  };
  made.finish = [sink = std::move(sink)] { sink->flush(); };
  return made;
}

/// Throws `invalid_argument` unless a setting, as "gap: interval", is a number
/// of steps.
inline void require_steps(const char* setting, std::int64_t value) {
  if (value < 1)
    fail(error_code::invalid_argument, "{} is {}; use 1 or more steps", setting,
         value);
}

}  // namespace troupe
