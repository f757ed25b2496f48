#include "troupe/actors/step/run_health.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

monitor named(const std::string& name, std::function<void()> part) {
  monitor result;
  result.name = name;
  result.see = [part = std::move(part)](const event&) { part(); };
  return result;
}

}  // namespace

TEST_CASE("health tells of ranks and monitors, also while steps run") {
  const small_case what{.ranks = 2, .microbatches = 2};
  trainer run(model_for(what), options_for(what));
  CHECK(run.health().ranks.empty());  // nothing has begun yet
  run.attach(named("calm", [] {}));
  run.attach(named("killed", [] { throw std::runtime_error("enough"); }));
  std::atomic<bool> done{false};
  std::atomic<int> busy{0};
  std::thread other([&] {
    while (!done)
      for (const auto& rank : run.health().ranks)
        busy += rank.op.empty() ? 0 : 1;
  });
  while (busy < 100)
    run.step(small_text());
  done = true;
  other.join();
  // The hub learns that a monitor failed only when it passes the next event to
  // it.
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (run.health().monitors.at(1).trouble.empty()
         && std::chrono::steady_clock::now() < until)
    run.step(small_text());
  const auto health = run.health();
  CHECK_FALSE(health.in_step);
  CHECK(health.failure.empty());
  REQUIRE(health.ranks.size() == 2);
  CHECK(health.ranks[1].rank == 1);
  REQUIRE(health.monitors.size() == 2);
  CHECK(health.monitors[0].name == "calm");
  CHECK(health.monitors[0].trouble.empty());
  CHECK(health.monitors[1].trouble == "enough");
}

TEST_CASE("health tells why a run can't go on") {
  const small_case what{.ranks = 2, .microbatches = 2};
  trainer run(model_for(what), options_for(what));
  run.step(small_text());
  run.interrupt("a signal");
  CHECK_THROWS_AS(
    [&] {
      for (int i = 0; i < 1000; ++i)
        run.step(small_text());
    }(),
    error);
  CHECK(run.health().interrupted);
  CHECK(run.health().failure.starts_with("a signal"));
}
