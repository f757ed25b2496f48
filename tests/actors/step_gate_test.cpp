#include "troupe/actors/step/step_gate.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("an abandoned step runs no further op, and tells of its updates") {
  step_gate before;
  REQUIRE(before.enter());
  CHECK(before.close());  // the op may still run, but changes no parameter
  CHECK_FALSE(before.begin_update());
  CHECK_FALSE(before.enter());
  CHECK_FALSE(before.await_ops(std::chrono::milliseconds(2)));
  before.leave();
  CHECK(before.await_ops({}));
  step_gate after;
  REQUIRE(after.enter());
  REQUIRE(after.begin_update());
  after.leave();
  CHECK_FALSE(after.close());
}
