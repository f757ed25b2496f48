#include <catch2/catch_test_macros.hpp>

#include <chrono>

#include "support.hpp"
#include "troupe/engine/plan/simulate.hpp"

using namespace troupe;

// The goal is 1 s, which bench/plan_speed measures; the bound allows for a
// busy machine and a build with sanitizers.
TEST_CASE("1f1b of 1024 ranks and 512 microbatches is planned in time",
          "[serial]") {
  const auto lanes =
    make_schedule("1f1b", {.ranks = 1024, .microbatches = 512});
  const auto begin = std::chrono::steady_clock::now();
  const auto of = compile(lanes);
  CHECK(verify(of, {transport_kind::credited}).progress);
  CHECK(simulate(of).makespan == 3 * (512 + 1023));
  const std::chrono::duration<double> taken =
    std::chrono::steady_clock::now() - begin;
  CHECK(taken.count() < 10);
}
