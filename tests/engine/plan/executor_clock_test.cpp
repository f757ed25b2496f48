#include "troupe/engine/plan/cost/step_clock.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

using namespace troupe;

namespace {

op_costs uneven_costs(const plan& of, std::uint64_t seed) {
  auto costs = parse_costs("reduce=2,norm=0.5,update=0.25,message=0.3");
  return disturbed(costs, of, {.jitter = 0.5, .seed = seed});
}

plan plan_of(std::string_view name, std::int32_t ranks) {
  return testing::make_plan(name, {.ranks = ranks,
                                   .stages_per_rank = name == "1f1b" ? 1 : 2,
                                   .microbatches = 4 * ranks});
}

}  // namespace

TEST_CASE("executors in strict order take the times of the step clock") {
  for (const auto& row : builtin_schedules())
    for (const bool clipped : {false, true}) {
      CAPTURE(row.name, clipped);
      const auto shape = testing::small_shape(row);
      const auto of = testing::make_plan(
        row.name, shape,
        {.data_parallel = 2,
         .global_norm = clipped && testing::takes_global_norm(row, shape)});
      const auto costs = uneven_costs(of, 7);
      step_clock fast{of, costs};
      executor_clock clock{of, costs, lane_order::strict};
      std::vector<double> a(static_cast<std::size_t>(of.ranks()), 1.0), b = a;
      b[0] = a[0] = 3;
      for (int step = 0; step < 2; ++step) {
        fast.run_step(a);
        clock.run_step(b);
        CHECK(a == b);
        CHECK(fast.start == clock.start);
        CHECK(fast.end == clock.end);
      }
    }
}

TEST_CASE("on paper, too, ops overtake within the lane's memory") {
  for (const auto& row : builtin_schedules())
    for (const auto order : {lane_order::ready_first, lane_order::any_ready})
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        const auto of = testing::make_plan(row.name, testing::small_shape(row));
        const auto costs = uneven_costs(of, seed);
        const auto times = simulate(of, costs, order);
        const auto lanes = simulate(of).in_flight;
        CAPTURE(row.name, seed);
        for (std::size_t rank = 0; rank < lanes.size(); ++rank)
          CHECK(times.in_flight[rank] <= lanes[rank]);
        double length = 0;
        for (const auto op : times.critical_path)
          length += times.end[op] - times.start[op];
        CHECK(length <= times.makespan + 1e-9);
        CHECK(times.period <= times.makespan + 1e-9);
      }
}

// F, B and I keep their order, so plans without W are as fast as in strict
// order.
TEST_CASE("ready_first is as fast as strict order under jitter, or faster") {
  for (const auto name : {"1f1b", "interleaved_1f1b", "zb_v"})
    for (const std::int32_t ranks : {4, 8, 16}) {
      const auto of = plan_of(name, ranks);
      double strict = 0, ready = 0;
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        disturbance how{.jitter = 0.3, .seed = seed};
        how.of_rank.resize(static_cast<std::size_t>(ranks) / 2 + 1, 1);
        if (seed % 2 == 0)
          how.of_rank.back() = 1.3;
        const auto costs = disturbed({}, of, how);
        strict += simulate(of, costs).makespan;
        ready += simulate(of, costs, lane_order::ready_first).makespan;
      }
      CAPTURE(name, ranks, strict, ready);
      CHECK(ready <= strict);
    }
}

TEST_CASE("without disturbance the lane's order is kept on paper") {
  for (const auto name : {"1f1b", "interleaved_1f1b", "zb_v"}) {
    const auto of = plan_of(name, 4);
    CHECK(simulate(of, {}, lane_order::ready_first).makespan
          == simulate(of).makespan);
  }
}

TEST_CASE("atomic pairs have no other order than the lane's") {
  const auto of = plan_of("zb_v", 2);
  CHECK_THROWS_AS(simulate(of, {.atomic_pairs = true}, lane_order::ready_first),
                  error);
}
