#include "troupe/engine/membership/member.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::membership;
using namespace std::chrono_literals;

namespace {

const member_options options{
  .self = 1, .lease = 10s, .lease_margin = 1s, .report_every = 1s};

epoch epoch_of(std::int64_t number) {
  return {.number = number,
          .from_step = 4,
          .members = {1, 2},
          .hosting = {1, 2},
          .givers = {1, 2}};
}

authority_order order(order_kind kind, const epoch& of,
                      std::int64_t answers = 0) {
  return {.member = 1, .answers = answers, .kind = kind, .epoch = of};
}

/// A member that runs epoch 3, leased until 9 s.
member running_member() {
  member of(options, 0s);
  REQUIRE(of.tick(0s).report->serial == 1);
  of.receive(1s, order(order_kind::freeze, {.number = 2}, 1));
  of.stopped(1s, {});
  REQUIRE(of.receive(1s, order(order_kind::prepare, epoch_of(3))).prepares);
  REQUIRE(of.loaded(1s, 3).report->stage == member_stage::ready);
  REQUIRE(of.receive(1s, order(order_kind::begin, {.number = 3})).begins);
  return of;
}

}  // namespace

TEST_CASE("a lease counts from the sending of the report that was answered") {
  member of(options, 0s);
  of.tick(0s);
  CHECK(!of.is_leased(0s));
  of.tick(2s);
  of.receive(5s, order(order_kind::go_on, {}, 1));
  CHECK(of.is_leased(8s));
  CHECK(!of.is_leased(9s));
  of.receive(5s, order(order_kind::go_on, {}, 2));
  CHECK(of.is_leased(10s));
  of.receive(20s, order(order_kind::go_on, {}, 1));
  CHECK(!of.is_leased(20s));
}

TEST_CASE("a member without a lease keeps its vote until it has one") {
  auto of = running_member();
  CHECK(!of.prepared(9s, 5, -1).vote);
  of.tick(9s);
  const auto out = of.receive(10s, order(order_kind::go_on, {}, 7));
  REQUIRE(out.vote);
  CHECK(out.vote->step == 5);
}

TEST_CASE("a member that was asked to freeze decides and applies no more") {
  auto of = running_member();
  of.prepared(2s, 5, -1);
  const auto asked = of.receive(2s, order(order_kind::freeze, {.number = 3}));
  CHECK(asked.stops_steps);
  CHECK(asked.report->promise == 3);
  const auto vote = of.receive(3s, step_vote{3, 2, 5, -1});
  CHECK(!vote.decision);
  CHECK(!vote.applies);
  const auto at_rest = of.stopped(3s, {{0, 4, copy_kind::applied}});
  CHECK(at_rest.report->stage == member_stage::frozen);
  CHECK(at_rest.report->copies.size() == 1);
}

TEST_CASE("orders of older epochs are refused and counted") {
  auto of = running_member();
  CHECK(!of.receive(2s, order(order_kind::freeze, {.number = 2})).stops_steps);
  CHECK(!of.receive(2s, order(order_kind::begin, {.number = 3})).begins);
  CHECK(of.refused() == 2);
  of.receive(2s, order(order_kind::freeze, {.number = 3}));
  of.stopped(2s, {});
  CHECK(!of.receive(3s, order(order_kind::prepare, epoch_of(3))).prepares);
  auto others = epoch_of(4);
  others.members = {2, 3};
  CHECK(!of.receive(3s, order(order_kind::prepare, others)).prepares);
  CHECK(of.receive(3s, order(order_kind::prepare, epoch_of(4))).prepares);
  CHECK(of.refused() == 4);
}

TEST_CASE("a member reports its problem until there is a new epoch") {
  auto of = running_member();
  CHECK(!of.fail(2s, {.epoch = 2}).report);
  CHECK(of.fail(2s, {.epoch = 3, .peer = 2}).report->problem->peer == 2);
  CHECK(!of.fail(2s, {.epoch = 3, .peer = 3}).report);
  CHECK(of.tick(4s).report->problem->peer == 2);
  of.receive(4s, order(order_kind::freeze, {.number = 3}));
  of.stopped(4s, {});
  CHECK(
    !of.receive(4s, order(order_kind::prepare, epoch_of(4))).report->problem);
}
