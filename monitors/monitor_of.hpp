#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "troupe/base/fail.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe {

template <class State, class What>
concept sees = requires(State& state, const What& what) {
  state.see(what);
};

/// Whether a state sees events, or one of their kinds.
template <class State, class What>
constexpr bool sees_any = sees<State, What>;
template <class State, class... Kinds>
constexpr bool sees_any<State, std::variant<Kinds...>> =
  sees<State, std::variant<Kinds...>> || (... || sees<State, Kinds>);

/// A monitor whose state sees the events, or those alone that it has a `see`
/// for, and may `finish`, and tell its `kept_bytes`.
template <class State>
monitor monitor_of(std::string name, std::shared_ptr<State> state) {
  static_assert(sees_any<State, event>);
  monitor result;
  result.name = std::move(name);
  if constexpr (requires { state->finish(); })
    result.finish = [state] { state->finish(); };
  if constexpr (requires { state->kept_bytes(); })
    result.kept_bytes = [state] { return state->kept_bytes(); };
  result.see = [state = std::move(state)](const event& what) {
    const auto show = [&](const auto& each) {
      if constexpr (sees<State, std::decay_t<decltype(each)>>)
        state->see(each);
    };
    if constexpr (sees<State, event>)
      show(what);
    else
      std::visit(show, what);
  };
  return result;
}

/// A monitor that sees each finished step, with what its ranks executed.
template <class See>
monitor monitor_of_steps(std::string name, See see) {
  monitor result;
  result.name = std::move(name);
  result.wants.ops = true;
  result.wants.warnings = false;
  result.see = [see = std::move(see),
                steps = std::make_shared<step_collector>()](const event& what) {
    if (const auto* ops = steps->add(what))
      see(std::get<step_event>(what), *ops);
  };
  return result;
}

/// Throws `invalid_argument` unless a setting, as "gap: every", is a number
/// of steps.
inline void require_steps(const char* setting, std::int64_t value) {
  if (value < 1)
    fail(error_code::invalid_argument, "{} is {}; use 1 or more steps", setting,
         value);
}

}  // namespace troupe
