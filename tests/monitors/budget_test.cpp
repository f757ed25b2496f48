#include "troupe/monitors/budget.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixture_g.hpp"
#include "recording_sink.hpp"
#include "troupe/monitors/gap.hpp"
#include "troupe/schedules/error.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("costs above the budget are spread over steps, and it says so") {
  auto sink = std::make_shared<recording_sink>();
  std::int64_t every = 1;
  auto budget = budget_monitor(
    {.share = 0.02}, 2, [&](std::int64_t n) { every = n; }, sink);
  std::int64_t number = 0;
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      auto step = step_with(++number, 1);  // one second on two lanes
      step.observe_seconds = number % every == 0 ? 0.2 : 0;
      budget.see(step);
    }
  };
  run(2);
  CHECK(every == 5);  // 10 % of the time, for 2 % in the mean
  run(20);
  CHECK(every == 5);
  REQUIRE(sink->alerts.size() == 1);
  CHECK_THAT(sink->alerts[0].text,
             Catch::Matchers::ContainsSubstring("one of 5 steps"));
  budget.finish();
  CHECK(every == 1);
}

TEST_CASE("observing in fewer steps reaches the other monitors") {
  auto sink = std::make_shared<recording_sink>();
  trainer run(model_g(), options_g(2, 1));
  run.attach(gap_monitor({}, sink));
  run.observe_every(3);
  for (int i = 0; i < 7; ++i)
    run.step(source_g(1));
  run.finish_monitors();
  CHECK(sink->steps.size() == 2);
  CHECK(sink->steps.contains(3));
  CHECK(sink->steps.contains(6));
}

TEST_CASE("a budget that can't be kept is refused") {
  const auto nothing = [](std::int64_t) {};
  CHECK_THROWS_AS(budget_monitor({.share = 0}, 1, nothing, callback_sink({})),
                  error);
  CHECK_THROWS_AS(budget_monitor({.longest = 0}, 1, nothing, callback_sink({})),
                  error);
}
