// Invalid counts and times in the trainer's options and arguments.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>

#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr auto no_number = std::numeric_limits<double>::quiet_NaN();

/// The message of an `invalid_argument`.
std::string refusal_of(const std::function<void()>& of) {
  try {
    of();
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::invalid_argument);
    return reason.what();
  }
  return "no refusal";
}

}  // namespace

TEST_CASE("options with counts below their least are refused") {
  const auto refuses = [](const std::string& expected, const auto& change) {
    auto options = options_for({.ranks = 2, .microbatches = 2});
    change(options);
    CHECK_THAT(
      refusal_of([&] { const trainer run(model_for({.ranks = 2}), options); }),
      ContainsSubstring(expected));
  };
  refuses("data_parallel is 0", [](auto& o) { o.data_parallel = 0; });
  const auto within = [&](const std::string& expected, const auto& change) {
    refuses(expected, [&](auto& o) { change(o.execution); });
  };
  within("prefetch is -1", [](auto& e) { e.loading.prefetch = -1; });
  within("slow_seconds is -1", [](auto& e) { e.loading.slow_seconds = -1; });
  within("slow_seconds is nan",
         [](auto& e) { e.loading.slow_seconds = no_number; });
  within("the factor -2", [](auto& e) { e.slow = {1, -2}; });
  within("the factor nan", [](auto& e) { e.slow = {no_number}; });
  within("of 3 ranks", [](auto& e) { e.slow = {1, 1, 1}; });
  within("threads", [](auto& e) { e.intra_op_threads = 0; });
  within("stall is -1", [](auto& e) { e.limits.stall = -1; });
}

TEST_CASE("members refuse counts below their least") {
  auto run = trainer_for({.ranks = 2, .microbatches = 2}, nullptr);
  const auto refuses = [&](const std::string& expected, const auto& call) {
    CHECK_THAT(refusal_of(call), ContainsSubstring(expected));
  };
  refuses("-3 steps", [&] { run.train(small_text(), -3); });
  refuses("0 microbatches", [&] { run.evaluate(small_text(), 0); });
  refuses("0 steps", [&] { run.observe_every(0); });
  refuses("-1 seconds", [&] { run.stop("enough", -1); });
  refuses("nan seconds", [&] { run.stop("enough", no_number); });
  refuses("-1 microbatches", [&] { run.set_position(-1); });
  std::int64_t steps = 0;
  for (const auto& step : run.train(small_text(), 0))
    steps = step.source.step;
  CHECK(steps == 0);
  CHECK(run.step(small_text()).summary.source.step == 1);
}

TEST_CASE("a monitor that may hold nothing, or take no time, is refused") {
  auto run = trainer_for({.ranks = 2, .microbatches = 2}, nullptr);
  for (const auto& limits :
       {monitor_limits{.waiting_events = 0}, monitor_limits{.held_bytes = 0},
        monitor_limits{.held_bytes = -1}, monitor_limits{.stuck_seconds = 0},
        monitor_limits{.stuck_seconds = no_number}}) {
    monitor watcher;
    watcher.name = "limited";
    watcher.see = [](const event&) {};
    watcher.limits = limits;
    CHECK_THAT(refusal_of([&] { run.attach(watcher); }),
               ContainsSubstring("monitor 'limited' is limited to "));
  }
}

TEST_CASE("a plain loop and text refuse counts below their least") {
  const auto refuses = [](const auto& change) {
    auto options = plain_options_for({});
    change(options);
    CHECK_THAT(
      refusal_of([&] { const plain_loop loop(model_for({}), options); }),
      ContainsSubstring("a plain loop of"));
  };
  refuses([](auto& o) { o.microbatches = 0; });
  refuses([](auto& o) { o.data_parallel = -1; });
  refuses([](auto& o) { o.slices = 0; });
  refuses([](auto& o) { o.updates.every = -1; });
  refuses([](auto& o) { o.updates.every = 1; });
  refuses([](auto& o) {
    o.updates = {1, {{0, 1}}, [](auto, auto) { return 0; }};
  });
  const auto tokens = std::make_shared<const token_source>(
    "t", 100, [](auto, auto count, auto* out) { std::fill_n(out, count, 0); });
  CHECK_THAT(refusal_of([&] { text_batches(tokens, {.vocabulary = 0}); }),
             ContainsSubstring("of a vocabulary of 0"));
}
