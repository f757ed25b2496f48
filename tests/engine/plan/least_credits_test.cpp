#include "troupe/engine/plan/compile/least_credits.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

plan with_credits(plan of, const std::vector<std::int32_t>& credits) {
  for (std::size_t c = 0; c < credits.size(); ++c)
    of.channels[c].credits = credits[c];
  return of;
}

bool keeps(const plan& of, credit_goal goal, const op_costs& costs) {
  if (!verify(of, {transport_kind::credited}).progress)
    return false;
  auto limited = costs;
  limited.credits = true;
  return goal == credit_goal::progress
         || simulate(of, limited).makespan
              <= simulate(of, costs).makespan * (1 + 1e-9);
}

}  // namespace

TEST_CASE("the least credits suffice, and no channel's can be lowered alone") {
  const op_costs costs{.message = 0.25};
  for (const auto& row : builtin_schedules())
    for (const std::int32_t ranks : {2, 4}) {
      auto shape = small_shape(row);
      shape.ranks = ranks;
      shape.microbatches = 2 * ranks;
      const auto of = make_plan(row.name, shape);
      for (const auto goal : {credit_goal::progress, credit_goal::makespan}) {
        CAPTURE(row.name, ranks, goal == credit_goal::makespan);
        const auto least = least_credits(of, goal, costs);
        REQUIRE(least.size() == of.channels.size());
        REQUIRE(keeps(with_credits(of, least), goal, costs));
        for (std::size_t c = 0; c < least.size(); ++c) {
          CHECK(least[c] >= 1);
          CHECK(least[c] <= of.channels[c].bound);
          auto fewer = least;
          if (--fewer[c] > 0)
            CHECK_FALSE(keeps(with_credits(of, fewer), goal, costs));
        }
      }
    }
}

TEST_CASE("slow messages need more credits than progress does") {
  const auto of = make_plan("gpipe", {.ranks = 4, .microbatches = 8});
  const auto alive = least_credits(of, credit_goal::progress);
  CHECK(std::ranges::count(alive, 1) == std::ssize(alive));
  // One message leaves a step of 3 while three forwards of 1 run.
  const auto fast = least_credits(of, credit_goal::makespan, {.message = 3});
  CHECK(std::ranges::max(fast) >= 3);
}
