#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"
#include "troupe/monitors/timing/step_collector.hpp"

namespace troupe {

/// A monitor whose state sees the events, or those alone that it has a `see`
/// for, and whose sink is flushed at the end.
template <class State>
monitor monitor_of(std::string name, std::shared_ptr<State> state,
                   sink_pointer sink) {
  monitor made;
  made.name = std::move(name);
  made.see = [state = std::move(state)](const event& what) {
    const auto show = [&](const auto& each) {
      if constexpr (requires { state->see(each); })
        state->see(each);
    };
    if constexpr (requires { state->see(what); })
      show(what);
    else
      std::visit(show, what);
  };
  made.finish = [sink = std::move(sink)] { sink->flush(); };
  return made;
}

/// A monitor that sees each finished step, with what its ranks executed.
template <class See>
monitor monitor_of_steps(std::string name, See see) {
  monitor made;
  made.name = std::move(name);
  made.wants.ops = true;
  made.wants.warnings = false;
  made.see = [see = std::move(see),
              steps = std::make_shared<step_collector>()](const event& what) {
    if (const auto* ops = steps->add(what))
      see(std::get<step_event>(what), *ops);
  };
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
