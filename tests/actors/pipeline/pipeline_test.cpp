#include "troupe/actors/pipeline/pipeline.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <ctime>
#include <thread>

#include "../../random_delays.hpp"
#include "faked_stage.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using troupe::testing::faked_run;

namespace {

void check_order(const plan& of, const step_report& report) {
  for (const auto& rank : report.ops) {
    const auto first = of.first_op[static_cast<std::size_t>(rank.source.rank)];
    REQUIRE(rank.ops.size() == of.lane(rank.source.rank).size());
    for (std::size_t i = 0; i < rank.ops.size(); ++i)
      CHECK(rank.ops[i].op == first + i);
  }
}

schedule interleaved() {
  return make_schedule("interleaved_1f1b",
                       {.ranks = 3, .stages_per_rank = 2, .microbatches = 7});
}

double cpu_seconds() {
  std::timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec)
         + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

TEST_CASE("many steps and evaluations run in the plan's order") {
  faked_run run(interleaved(), 2);
  for (int i = 0; i < 20; ++i) {
    const auto report = run.step();
    check_order(*run.training, report);
    CHECK(report.summary.updated);
    CHECK(report.summary.losses.at(0).count == 2 * 7);
    step_settings settings;
    settings.step = i;
    settings.phase = phase::validation;
    check_order(*run.evaluation,
                run.actors->run(settings, run.evaluation, run.source));
  }
  for (const auto& stage : run.stages)
    CHECK(stage->updates == 20);
}

TEST_CASE("random delays in every actor keep the order") {
  faked_run run(interleaved(), 2, testing::random_delays(1));
  for (int i = 0; i < 10; ++i)
    check_order(*run.training, run.step());
}

TEST_CASE("monitors come and go while steps run") {
  faked_run run(interleaved(), 1);
  auto events = std::make_shared<std::atomic<int>>(0);
  monitor counter;
  counter.name = "counter";
  counter.wants.ops = true;
  counter.see = [events](const event&) { ++*events; };
  for (int i = 0; i < 10; ++i) {
    const auto id = run.actors->attach(counter);
    run.step();
    run.actors->detach(id);
    CHECK(*events == (i + 1) * (3 + 1));  // one event per rank, and the step's
    run.step();
  }
}

TEST_CASE("a failure ends the step for all, and every later one") {
  faked_run run(interleaved(), 2);
  run.step();
  run.stages[8]->fails_at = 3;  // replica 1's stage 2, on rank 2
  for (int i = 0; i < 2; ++i) {
    try {
      run.step();
      FAIL("no failure");
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::op_failed);
      CHECK_THAT(reason.what(),
                 ContainsSubstring("step 2, rank 2, op 2F3 (stage 2, "
                                   "microbatch 3, replica 1): faked"));
    }
  }
}

TEST_CASE("an interrupt from another thread ends a step") {
  std::atomic<bool> go_on = false;
  faked_run run(interleaved(), 1);
  run.source = make_source([&](std::int64_t) {
    while (!go_on)
      std::this_thread::yield();
    return microbatch_data{};
  });
  std::thread other([&] { run.actors->interrupt("enough"); });
  CHECK_THROWS_AS(run.step(), error);
  other.join();
  go_on = true;
}

TEST_CASE("a run that was never stepped ends cleanly") {
  const faked_run run(interleaved(), 1);
  CHECK(run.steps == 0);
}

TEST_CASE("idle actors burn no CPU", "[serial]") {
  faked_run run(interleaved(), 2);
  run.step();
  // Polls with a deadline until the first quiet window of 50 ms.
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  double busiest = 1;
  while (busiest > 0.02 && std::chrono::steady_clock::now() < until) {
    const auto begin = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    busiest = (cpu_seconds() - begin) / 0.05;
  }
  CHECK(busiest <= 0.02);
}
