#include "troupe/monitors/timing/throughput.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <random>

#include "recording_sink.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;

namespace {

/// Every forward of a rank, and every other compute op, takes so many
/// milliseconds.
ops_event ops_of(const std::shared_ptr<const plan>& planned, std::int32_t rank,
                 std::int64_t step, std::int64_t forward, std::int64_t other) {
  const auto& of = *planned;
  ops_event event;
  event.plan = planned;
  event.source.step = step;
  event.source.rank = rank;
  std::int64_t now = step * 1'000'000'000;
  const auto r = static_cast<std::size_t>(rank);
  for (auto i = of.first_op[r]; i < of.first_op[r + 1]; ++i)
    if (is_compute(of.ops[i].kind)) {
      const auto ms = of.ops[i].kind == plan_op_kind::forward ? forward : other;
      event.ops.push_back({i, 0, 0, now, now + ms * 1'000'000});
      now += ms * 1'000'000;
    }
  return event;
}

}  // namespace

TEST_CASE("throughput, MFU and a straggler, from what ranks executed") {
  const auto of = std::make_shared<const plan>(
    compile(make_schedule("1f1b", {.ranks = 3, .microbatches = 3}), {}));
  auto sink = std::make_shared<recording_sink>();
  auto watch = throughput_monitor(
    {.parameters = 1000, .peak_flops = 1e6, .straggler = 1.5}, sink);
  for (std::int64_t step = 1; step <= 12; ++step) {
    for (const std::int32_t rank : {0, 1, 2})
      watch.see(
        ops_of(of, rank, step, rank == 1 ? 20 : 10, rank == 1 ? 20 : 10));
    event_source at{.step = step, .rank = 1};
    watch.see(messages_event{at,
                             {{.bytes = 1 << 20, .wait = 250'000'000},
                              {.bytes = 2 << 20, .wait = 500'000'000}}});
    watch.see(memory_event{at, 5 << 20, 7 << 20, 9 << 20});
    auto summary = step_with(step, 1);
    summary.tokens = 50;
    watch.see(summary);
  }
  const auto& values = sink->steps[1];
  CHECK(values.at("throughput/tokens_per_second") == Approx(50));
  CHECK(values.at("throughput/mfu") == Approx(6 * 1000 * 50 / (3 * 1e6)));
  CHECK(values.at("throughput/rank0/busy_seconds") == Approx(0.06));
  CHECK(values.at("throughput/rank1/busy_seconds") == Approx(0.12));
  CHECK(values.at("throughput/rank1/received_mib") == 3);
  CHECK(values.at("throughput/rank1/message_wait_seconds") == Approx(0.75));
  CHECK(values.at("throughput/rank1/memory_mib") == 5);
  auto generated = step_with(13, 1);
  generated.source.phase = phase::inference;
  generated.tokens = 50;
  for (const std::int32_t rank : {0, 1, 2})
    watch.see(ops_of(of, rank, 13, 10, 10));
  watch.see(generated);
  CHECK(sink->steps[13].at("throughput/mfu")
        == Approx(2 * 1000 * 50 / (3 * 1e6)));
  REQUIRE(sink->alerts.size() == 1);  // once, not in every step
  CHECK(sink->alerts[0].source.rank == 1);
  CHECK_THAT(sink->alerts[0].text,
             Catch::Matchers::ContainsSubstring("rank1 has been a straggler"));
  CHECK_THROWS_AS(throughput_monitor({.straggler = 1}, sink), error);
}

namespace {

/// Steps of three ranks in which rank 2's forwards take so long, and its
/// backwards correspondingly less.
struct uneven_run {
  void steps(int count, std::int64_t forward) {
    for (int i = 0; i < count; ++i) {
      ++step;
      for (const std::int32_t rank : {0, 1})
        watch.see(ops_of(of, rank, step, 10, 50));
      watch.see(ops_of(of, 2, step, forward, 60 - forward));
      watch.see(step_with(step, 1));
    }
  }
  std::size_t alerts() const { return sink->alerts.size(); }

  std::shared_ptr<const plan> of = std::make_shared<const plan>(
    compile(make_schedule("1f1b", {.ranks = 3, .microbatches = 3}), {}));
  std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
  monitor watch = throughput_monitor({.straggler = 1.5}, sink);
  std::int64_t step = 0;
};

}  // namespace

TEST_CASE("a straggler is found by the kind of its ops") {
  uneven_run run;
  run.steps(7, 20);
  CHECK(run.alerts() == 0);
  run.steps(1, 20);
  REQUIRE(run.alerts() == 1);
  CHECK_THAT(run.sink->alerts[0].text,
             Catch::Matchers::ContainsSubstring(
               "forward ops take 2.00 times what they take on other ranks (now "
               "20 ms and 10 ms)")
               && !Catch::Matchers::ContainsSubstring("backward"));
}

TEST_CASE("a stage that costs more is told of once, and if it slows down") {
  uneven_run run;
  run.steps(40, 20);
  CHECK(run.alerts() == 1);
  run.steps(40, 28);  // 1.4 times its usual duration
  CHECK(run.alerts() == 1);
  run.steps(40, 32);
  CHECK(run.alerts() == 2);
  run.steps(60, 10);  // like the others, so it may be reported again
  run.steps(10, 20);
  CHECK(run.alerts() == 3);
}

TEST_CASE("a rank that hovers around the threshold is reported once") {
  uneven_run run;
  for (int i = 0; i < 100; ++i) {
    run.steps(12, 16);
    run.steps(12, 10);
  }
  CHECK(run.alerts() == 1);
}

namespace {

/// Steps of two ranks, whose ops take 1 ms plus noise: a tenth take far longer,
/// as if their thread had been interrupted.
struct noisy_run {
  ops_event ops(std::int32_t rank, double times) {
    auto event = ops_of(of, rank, step, 0, 0);
    for (auto& op : event.ops)
      op.end = op.begin + static_cast<std::int64_t>(times * noise() * 1e6);
    return event;
  }
  double noise() {
    const auto usual = std::exp(0.1 * normal(random));
    const auto chance = uniform(random);
    return chance < 0.1 ? usual * std::min(1 / (chance * 10 + 1e-3), 100.0)
                        : usual;
  }
  void steps(int count, double times) {
    for (int i = 0; i < count; ++i) {
      ++step;
      watch.see(ops(0, 1));
      watch.see(ops(1, times));
      watch.see(step_with(step, 1));
    }
  }

  std::shared_ptr<const plan> of = std::make_shared<const plan>(
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 4}), {}));
  std::shared_ptr<recording_sink> sink = std::make_shared<recording_sink>();
  monitor watch = throughput_monitor({}, sink);
  std::int64_t step = 0;
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
};

}  // namespace

TEST_CASE("of equal ranks none is a straggler, however noisy their ops") {
  noisy_run run;
  run.steps(3300, 1);
  CHECK(run.sink->alerts.empty());
}

TEST_CASE("a slow rank is found within ten steps, at the start or later") {
  for (const int before : {0, 100}) {
    noisy_run run;
    run.steps(before, 1);
    REQUIRE(run.sink->alerts.empty());
    run.steps(10, 1.4);
    REQUIRE_FALSE(run.sink->alerts.empty());
    for (const auto& each : run.sink->alerts)
      CHECK(each.source.rank == 1);
  }
}
