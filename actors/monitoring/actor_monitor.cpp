#include "troupe/actors/monitoring/actor_monitor.hpp"

#include <fmt/format.h>

#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>
#include <chrono>
#include <stdexcept>

#include "troupe/actors/system/logger_scope.hpp"
#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

/// Sends an event and waits for the answer, on the monitor's own thread.
void send_to(const caf::actor& watcher, const event& what, double seconds) {
  const logger_scope restored;
  const caf::scoped_actor self(watcher.home_system());
  const auto patience = std::chrono::duration_cast<caf::timespan>(
    std::chrono::duration<double>(seconds));
  self
    ->request(watcher, patience,
              monitor_event{std::make_shared<const event>(what)})
    .receive(
      [] {},
      [&](const caf::error& reason) {
        throw std::runtime_error(
          reason == caf::sec::request_timeout
            ? fmt::format("the actor has not responded for {:.3g} s", seconds)
            : "the actor has terminated: " + caf::to_string(reason));
      });
}

}  // namespace

monitor actor_monitor(std::string name, caf::actor watcher, subscription wants,
                      const monitor_limits& limits) {
  if (!watcher)
    fail(error_code::invalid_argument, "monitor '{}' is a null actor", name);
  monitor result;
  result.name = std::move(name);
  result.wants = std::move(wants);
  result.limits = limits;
  // The answer must fail first: a call that lasts would leave a thread behind.
  result.limits.stuck_seconds = 2 * limits.stuck_seconds;
  result.see = [watcher = std::move(watcher), seconds = limits.stuck_seconds](
                 const event& what) { send_to(watcher, what, seconds); };
  return result;
}

}  // namespace troupe
