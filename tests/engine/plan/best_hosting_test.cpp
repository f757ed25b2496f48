#include "troupe/engine/plan/search/best_hosting.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <set>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

using hosting = std::vector<std::int32_t>;

plan plan_of(std::int32_t ranks, std::int32_t microbatches = 8,
             std::int32_t replicas = 1) {
  return compile(
    make_schedule("1f1b", {.ranks = ranks, .microbatches = microbatches}),
    {.data_parallel = replicas});
}

/// Each process has one core for itself.
hosting_problem problem_of(const plan& plan, hosting now,
                           std::vector<double> speeds) {
  hosting_problem problem{.plan = plan};
  problem.replicas =
    static_cast<std::int32_t>(now.size()) / plan.placement.ranks;
  problem.hosting = std::move(now);
  problem.state_bytes.assign(slot(plan.stages()), 1'000'000);
  for (const auto speed : speeds) {
    problem.processes.push_back(
      {.group = static_cast<std::int32_t>(problem.cores.size()),
       .speed = speed});
    problem.cores.push_back(1);
  }
  return problem;
}

std::vector<std::ptrdiff_t> counts(const hosting& hosts,
                                   std::int32_t processes) {
  std::vector<std::ptrdiff_t> all;
  for (std::int32_t p = 0; p < processes; ++p)
    all.push_back(std::ranges::count(hosts, p));
  return all;
}

}  // namespace

TEST_CASE("ranks that share a core are divided evenly") {
  const auto plan = plan_of(8);
  const auto problem = problem_of(plan, {0, 0, 0, 0, 0, 0, 1, 2}, {1, 1, 1});
  const auto best = best_hosting(problem);
  auto loads = counts(best.hosting, 3);
  std::ranges::sort(loads);
  CHECK(loads == std::vector<std::ptrdiff_t>{2, 3, 3});
  CHECK(best.now == 6 * 8 * 3);
  // The pipeline alone takes (8 + 7) x 3 forwards.
  CHECK(best.then == 3 * 8 * 3);
  CHECK(best.gain() == Catch::Approx(0.5));
  CHECK(best.cost == Catch::Approx(0.5 + 0.03));
  CHECK(best.steps_to_pay() == Catch::Approx(0.53 / 72));
}

TEST_CASE("a process of half the speed hosts fewer ranks") {
  const auto plan = plan_of(8);
  const auto problem = problem_of(plan, {0, 0, 0, 0, 1, 1, 1, 1}, {1, 0.5});
  const auto best = best_hosting(problem);
  CHECK(counts(best.hosting, 2) == std::vector<std::ptrdiff_t>{5, 3});
  CHECK(best.now == 4 * 2 * 24);
  CHECK(best.then == 3 * 2 * 24);
  // One rank alone has moved.
  CHECK(best.cost == Catch::Approx(0.5 + 0.01));
}

TEST_CASE("a costly stage has fewer others beside it") {
  const auto plan = plan_of(4);
  auto problem = problem_of(plan, {0, 0, 1, 1}, {1, 1});
  problem.costs.of_stage.assign(4, op_costs::default_costs());
  for (auto& cost : problem.costs.of_stage[0])
    cost *= 3;
  CHECK(best_hosting(problem).hosting == hosting{0, 1, 1, 1});
}

TEST_CASE("no rank moves where nothing is gained") {
  const auto plan = plan_of(4);
  SECTION("the hosting is even") {
    const hosting even{0, 0, 1, 1};
    const auto best = best_hosting(problem_of(plan, even, {1, 1}));
    CHECK(best.hosting == even);
    CHECK(best.cost == 0);
    CHECK(best.gain() == 0);
    CHECK(best.steps_to_pay() > 1e300);
  }
  SECTION("the processes share the cores") {
    const hosting now{0, 0, 0, 1};
    auto problem = problem_of(plan, now, {1, 1});
    problem.processes[1].group = 0;
    problem.cores = {2};
    CHECK(best_hosting(problem).hosting == now);
  }
  SECTION("each rank has a core") {
    const hosting now{0, 0, 0, 1};
    auto problem = problem_of(plan, now, {1, 1});
    problem.cores = {4, 4};
    CHECK(best_hosting(problem).hosting == now);
  }
}

TEST_CASE("neighbours are in one process where messages are slow") {
  const auto plan = plan_of(4);
  auto problem = problem_of(plan, {0, 1, 0, 1}, {1, 1});
  problem.costs.message = 5;
  const auto best = best_hosting(problem);
  CHECK(best.then < best.now);
  CHECK(best.hosting == hosting{0, 1, 1, 1});  // one boundary, one move
}

TEST_CASE("processes without ranks get none, and others keep one") {
  const auto plan = plan_of(4);
  const auto best = best_hosting(problem_of(plan, {0, 0, 0, 2}, {1, 1, 0.01}));
  CHECK(counts(best.hosting, 3) == std::vector<std::ptrdiff_t>{3, 0, 1});
}

TEST_CASE("a message takes time between processes alone") {
  const auto plan = plan_of(2, 2);
  auto problem = problem_of(plan, {0, 0}, {1, 1});
  problem.cores = {2, 1};
  problem.costs.message = 1;
  CHECK(predicted_step(problem, {0, 0}) == simulate(plan).makespan);
  CHECK(predicted_step(problem, {0, 1})
        == simulate(plan, problem.costs).makespan);
}

TEST_CASE("the best hosting of random jobs keeps its promises") {
  std::mt19937 random(7);
  const auto upto = [&](int most) {
    return static_cast<std::int32_t>(random() % static_cast<unsigned>(most));
  };
  for (int trial = 0; trial < 60; ++trial) {
    CAPTURE(trial);
    const auto ranks = 2 + upto(5);
    const auto replicas = 1 + upto(3);
    const auto processes = 1 + upto(5);
    const auto plan = plan_of(ranks, 2 + upto(4), replicas);
    hosting now;
    for (std::int32_t n = 0; n < ranks * replicas; ++n)
      now.push_back(upto(processes));
    std::vector<double> speeds;
    for (std::int32_t p = 0; p < processes; ++p)
      speeds.push_back(1.0 / (1 + upto(3)));
    auto problem = problem_of(plan, now, speeds);
    for (auto& process : problem.processes)
      process.group = upto(processes);
    for (auto& cores : problem.cores)
      cores = 1 + upto(3);
    problem.costs.message = 0.1 * upto(5);
    const auto best = best_hosting(problem);
    CHECK(best.hosting == best_hosting(problem).hosting);
    CHECK(best.then <= 1.01 * best.now);
    CHECK(best.then >= 0.9999 * least_step(problem));
    CHECK(best.now == predicted_step(problem, now));
    CHECK(best.then == predicted_step(problem, best.hosting));
    CHECK(std::set(best.hosting.begin(), best.hosting.end())
          == std::set(now.begin(), now.end()));
    CHECK((best.cost > 0) == (best.hosting != now));
    // No other move of one rank is better by more than what moves are spared.
    for (std::size_t n = 0; n < now.size(); ++n)
      for (const auto process : now) {
        auto other = best.hosting;
        other[n] = process;
        if (std::set(other.begin(), other.end()).size()
            == std::set(now.begin(), now.end()).size())
          CHECK(predicted_step(problem, other) >= best.then / 1.0101);
      }
  }
}
