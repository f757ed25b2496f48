#include "troupe/engine/membership/step_commit.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::membership;

namespace {

const epoch of_three{
  .number = 2, .from_step = 5, .members = {1, 2, 3}, .hosting = {2, 3, 2}};

}  // namespace

TEST_CASE("a step is decided when all hosts have voted, by the lowest") {
  step_commit leader(of_three, 2), other(of_three, 3);
  CHECK(leader.leader() == 2);
  leader.prepare(6, 4);
  REQUIRE(leader.receive(*leader.take_vote()));
  CHECK(!leader.take_decision());
  other.prepare(6, 2);
  const auto vote = other.take_vote();
  REQUIRE(vote);
  CHECK(!other.take_vote());
  REQUIRE(leader.receive(*vote));
  const auto decision = leader.take_decision();
  REQUIRE(decision);
  CHECK(decision->step == 6);
  CHECK(decision->keep_from == 2);
  CHECK(leader.take_applicable());
  REQUIRE(other.receive(*decision));
  CHECK(other.take_applicable()->step == 6);
  CHECK(!other.receive(*decision));
  CHECK(!other.take_applicable());
}

TEST_CASE("votes of other epochs, steps and members count nothing") {
  step_commit leader(of_three, 2);
  CHECK(!leader.receive(step_vote{1, 3, 6, -1}));
  CHECK(!leader.receive(step_vote{2, 3, 7, -1}));
  CHECK(!leader.receive(step_vote{2, 1, 6, -1}));
  step_commit other(of_three, 3);
  CHECK(!other.receive(step_vote{2, 2, 6, -1}));
  CHECK(!other.receive(step_decision{1, 6, -1}));
}
