#include "troupe/actors/monitoring/actor_monitor.hpp"
#include "troupe/actors/monitoring/message_types.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <future>

#include "../says.hpp"
#include "captured_log.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// An actor system, set up as a user would.
struct own_system {
  own_system() {
    register_message_types();
    system = std::make_unique<caf::actor_system>(config);
  }
  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
};

/// Trains so many steps with the watcher attached; returns what run_health says
/// about the monitor.
std::string train_beside(const caf::actor& watcher, int steps,
                         const monitor_limits& limits = {}) {
  trainer run(model_for({}), options_for({}));
  run.attach(actor_monitor("own", watcher, {.warnings = false}, limits));
  for (const auto& step : run.train(small_text(), steps))
    static_cast<void>(step);
  std::string trouble;
  try {
    run.finish_monitors();
  } catch (const error& reason) {
    trouble = reason.what();
  }
  return trouble;
}

}  // namespace

TEST_CASE("an actor of the user's own sees a run's events, in order") {
  own_system own;
  std::vector<std::int64_t> steps;
  const auto watcher =
    own.system->spawn([&steps](caf::event_based_actor*) -> caf::behavior {
      return {[&steps](const monitor_event& message) {
        steps.push_back(std::get<step_event>(*message.what).source.step);
      }};
    });
  CHECK(train_beside(watcher, 5) == "");
  CHECK(steps == std::vector<std::int64_t>{1, 2, 3, 4, 5});
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
}

TEST_CASE("an actor is sent the next event when it has answered") {
  own_system own;
  std::atomic<int> open = 0, most = 0, message = 0;
  const auto watcher =
    own.system->spawn([&](caf::event_based_actor* self) -> caf::behavior {
      return {[&, self](const monitor_event&) {
        most = std::max(most.load(), ++open);
        auto promise = self->make_response_promise();
        self->run_delayed(std::chrono::milliseconds(1), [&, promise]() mutable {
          --open;
          ++message;
          promise.deliver();
        });
        return promise;
      }};
    });
  CHECK(train_beside(watcher, 5) == "");
  CHECK(most == 1);
  CHECK(message == 5);
  caf::anon_send_exit(watcher, caf::exit_reason::user_shutdown);
}

TEST_CASE("an actor that ends, fails or does not answer is detached") {
  own_system own;
  const captured_log log;
  const auto ends =
    own.system->spawn([](caf::event_based_actor* self) -> caf::behavior {
      return {[self](const monitor_event&) { self->quit(); }};
    });
  CHECK_THAT(train_beside(ends, 5),
             ContainsSubstring("the actor has terminated"));
  const auto throws =
    own.system->spawn([](caf::event_based_actor*) -> caf::behavior {
      return {[](const monitor_event&) { throw std::runtime_error("bad"); }};
    });
  CHECK_THAT(train_beside(throws, 3),
             ContainsSubstring("the actor has terminated"));
  std::vector<caf::response_promise> unanswered;
  const auto silent =
    own.system->spawn([&](caf::event_based_actor* self) -> caf::behavior {
      return {[&, self](const monitor_event&) {
        unanswered.push_back(self->make_response_promise());
        return unanswered.back();
      }};
    });
  CHECK_THAT(train_beside(silent, 5, {.stuck_seconds = 0.5}),
             ContainsSubstring("has not responded for 0.5 s"));
  CHECK_THAT(log.text(),
             ContainsSubstring("monitor own receives no further events"));
  caf::anon_send_exit(silent, caf::exit_reason::user_shutdown);
  CHECK_THROWS_MATCHES(actor_monitor("none", {}, {}), error,
                       says("'none' is a null actor"));
}
