#include "troupe/monitors/live/rebalance_policy.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

/// Saves a second of ten, and costs fifty.
const hosting_choice good{.hosting = {0, 1}, .now = 10, .then = 9, .cost = 50};

}  // namespace

TEST_CASE("a hosting is looked for after enough steps, and not too often") {
  rebalance_policy policy;
  policy.begin_epoch({7, 8}, {0, 0});
  CHECK_FALSE(policy.looks_after(50));  // the first step that was measured
  for (std::int64_t step = 51; step < 100; ++step)
    CHECK_FALSE(policy.looks_after(step));
  CHECK(policy.looks_after(100));
  policy.note_move(100);
  for (std::int64_t step = 101; step < 300; ++step)
    CHECK_FALSE(policy.looks_after(step));
  CHECK(policy.looks_after(300));
  policy.begin_epoch({7, 8}, {0, 1});
  CHECK_FALSE(policy.looks_after(350));
}

TEST_CASE("a hosting is taken if it gains enough and pays in time") {
  rebalance_policy policy;
  policy.begin_epoch({7, 8}, {0, 0});
  CHECK(policy.takes(good, 1000));
  CHECK(policy.takes(good, 50));
  CHECK_FALSE(policy.takes(good, 49));  // the run ends before
  auto small = good;
  small.then = 9.6;
  small.cost = 0;
  CHECK_FALSE(policy.takes(small, 1000));
  auto costly = good;
  costly.cost = 101;
  CHECK_FALSE(policy.takes(costly, 1000));
  auto none = good;
  none.then = none.now;
  CHECK_FALSE(policy.takes(none, 1000));
}

TEST_CASE("ranks do not go back to a hosting that was left") {
  rebalance_policy policy;
  policy.begin_epoch({7, 8}, {0, 1});
  policy.begin_epoch({7, 8}, {0, 1});  // of a loss that changed nothing
  CHECK(policy.takes(good, 1000));
  policy.begin_epoch({7, 8}, {1, 1});
  CHECK_FALSE(policy.takes(good, 1000));
  policy.begin_epoch({7, 9}, {1, 1});  // another process has that number
  CHECK(policy.takes(good, 1000));
}

TEST_CASE("what a prediction does not explain does not get shorter") {
  const auto longer = calibrated(good, 20);
  CHECK(longer.now == 20);
  CHECK(longer.then == 19);
  CHECK(longer.steps_to_pay() == 50);
  const auto shorter = calibrated(good, 5);
  CHECK(shorter.then == Catch::Approx(4.5));
}
