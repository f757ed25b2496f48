#include <catch2/catch_test_macros.hpp>

#include <ctime>

#include "support.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

using namespace troupe;

namespace {

// Processor time, as the machine may be busy.
double seconds_to_plan_1f1b(std::int32_t ranks) {
  const auto lanes =
    make_schedule("1f1b", {.ranks = ranks, .microbatches = 512});
  const auto begin = std::clock();
  const auto of = compile(lanes);
  CHECK(verify(of, {transport_kind::credited}).progress);
  CHECK(simulate(of).makespan == 3 * (512 + ranks - 1));
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

}  // namespace

// The bound allows for builds with sanitizers.
TEST_CASE("1f1b of 1024 ranks and 512 microbatches is planned in time",
          "[serial]") {
  CHECK(seconds_to_plan_1f1b(1024) < 30);
}

// The goal is 2 s, which bench/plan_speed measures.
TEST_CASE("1f1b of 4096 ranks and 512 microbatches is planned in time",
          "[.full]") {
  CHECK(seconds_to_plan_1f1b(4096) < 120);
}

// The goal is 0.5 s for zb_v of 512 microbatches.
TEST_CASE("V schedules of 64 ranks are planned in time", "[serial]") {
  const auto begin = std::clock();
  for (const auto& [name, microbatches] :
       {std::pair{"zb_v", 512}, std::pair{"v_half", 128},
        std::pair{"v_min", 128}}) {
    const auto of = testing::make_plan(
      name, {.ranks = 64, .stages_per_rank = 2, .microbatches = microbatches});
    CHECK(verify(of, {transport_kind::credited}).progress);
    CHECK(simulate(of).makespan <= 6 * microbatches + 4 * 64);
  }
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 15);
}
