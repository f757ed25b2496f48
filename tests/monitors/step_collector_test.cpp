#include "troupe/monitors/step_times.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("a step's ops are those since the last step's end") {
  step_collector steps;
  CHECK(steps.add(ops_event{}) == nullptr);
  CHECK(steps.add(ops_event{}) == nullptr);
  CHECK(steps.add(step_event{})->size() == 2);
  CHECK(steps.add(step_event{})->empty());
}

TEST_CASE("what was gathered of a step that was cut off is not another's") {
  step_collector steps;
  steps.add(ops_event{});
  steps.add(dropped_event{{}, 5});
  steps.add(ops_event{});
  CHECK(steps.add(step_event{})->size() == 1);
}
