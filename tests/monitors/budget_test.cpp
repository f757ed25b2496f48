#include "troupe/monitors/budget.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixture_g.hpp"
#include "recording_sink.hpp"
#include "troupe/base/error.hpp"
#include "troupe/monitors/tensors/gap.hpp"
#include "troupe/monitors/tensors/overflow.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;

namespace {

/// Steps of one second on two lanes; some report their tensors.
struct budget_run {
  explicit budget_run(std::int64_t interval) : monitor_interval(interval) {}

  void steps(int count, double cost) {
    for (int i = 0; i < count; ++i) {
      auto step = step_with(++number, 1);
      const bool shown = number % every == 0 && number % monitor_interval == 0;
      step.observed = shown;
      step.observe_seconds = shown ? cost : 0;
      budget.see(step);
    }
  }

  std::int64_t monitor_interval, every = 1, number = 0;
  int changes = 0;
  std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
  monitor budget = budget_monitor(
    {.share = 0.02}, 2,
    [this](std::int64_t n) {
      every = n;
      ++changes;
    },
    sink);
};

}  // namespace

TEST_CASE("costs above the budget are spread over steps, and it says so") {
  budget_run run(1);
  run.steps(3, 0.2);
  CHECK(run.every == 5);  // 10 % of the time, 2 % on average
  run.steps(50, 0.2);
  CHECK(run.every == 5);
  REQUIRE(run.sink->alerts.size() == 1);
  CHECK_THAT(run.sink->alerts[0].text,
             Catch::Matchers::ContainsSubstring("one of 5 steps"));
  CHECK(run.sink->steps.rbegin()->second.at("budget/share") == Approx(0.02));
  run.budget.finish();
  CHECK(run.every == 1);
}

TEST_CASE("what monitors leave out by themselves counts") {
  budget_run run(10);
  run.steps(100, 0.4);  // 20 % of a step, 2 % of all steps
  CHECK(run.changes == 0);
  CHECK(run.sink->steps.at(30).at("budget/share") == Approx(0.02));
  run.steps(100, 0.8);
  CHECK(run.sink->steps.rbegin()->second.at("budget/share") <= 0.0201);
}

TEST_CASE("when monitors cost less, more steps are observed again") {
  budget_run run(1);
  run.steps(20, 0.4);
  CHECK(run.every == 10);
  run.steps(50, 0.04);
  CHECK(run.every == 1);
}

TEST_CASE("a budget that changed nothing undoes nothing") {
  budget_run run(1);
  run.steps(20, 0.001);
  run.budget.finish();
  CHECK(run.changes == 0);
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

TEST_CASE("a monitor that detects sees the steps that a budget leaves out") {
  auto sink = std::make_shared<recording_sink>();
  trainer run(model_g(), options_g(2, 1));
  run.attach(gap_monitor({}, sink));
  overflow_options options;
  options.trace = {3};  // step 4, which the budget skips
  std::string traced;
  options.print = [&](const std::string& text) { traced += text; };
  run.attach(overflow_monitor(options, sink));
  run.observe_every(3);
  for (int i = 0; i < 7; ++i)
    run.step(source_g(1));
  run.finish_monitors();
  CHECK(sink->steps.size() == 2);  // the gap monitor's
  CHECK_THAT(traced, Catch::Matchers::ContainsSubstring("output"));
}

TEST_CASE("a budget that can't be kept is refused") {
  const auto nothing = [](std::int64_t) {};
  CHECK_THROWS_AS(budget_monitor({.share = 0}, 1, nothing, callback_sink({})),
                  error);
  CHECK_THROWS_AS(budget_monitor({.longest = 0}, 1, nothing, callback_sink({})),
                  error);
  CHECK_THROWS_AS(budget_monitor({}, 0, nothing, callback_sink({})), error);
}
