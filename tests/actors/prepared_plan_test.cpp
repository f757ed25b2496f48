#include "troupe/actors/step/prepared_plan.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

plan_pointer plan_of(const char* schedule) {
  return std::make_shared<const plan>(
    compile(make_schedule(schedule, {.ranks = 2, .microbatches = 4})));
}

}  // namespace

TEST_CASE("what a run derives from a plan is found out once") {
  const auto plan = plan_of("zb_h1");
  prepared_plans plans(3, true);
  const auto prepared = plans.prepared(plan);
  CHECK(plans.prepared(plan) == prepared);
  CHECK(prepared->hash() == content_hash(*plan));
  CHECK(prepared->traits().splits_backward);
  CHECK(prepared->traits().microbatches == 4);
  CHECK_FALSE(plans.prepared(plan_of("1f1b"))->traits().splits_backward);
  auto& executor = prepared->executor(2, 1, lane_order::strict, {});
  CHECK(&prepared->executor(2, 1, lane_order::strict, {}) == &executor);
  CHECK(&prepared->executor(1, 1, lane_order::strict, {}) != &executor);
}

TEST_CASE("a prepared plan is kept for as long as its owner keeps the plan") {
  prepared_plans plans(1, false);
  auto first = plan_of("1f1b"), second = plan_of("gpipe");
  CHECK(plans.prepared(first)->hash() == 0);
  plans.prepared(second);
  CHECK(plans.size() == 2);
  first.reset();
  plans.prepared(second);
  CHECK(plans.size() == 1);
}
