#include "troupe/engine/launch/clock_difference.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>

using namespace troupe;

TEST_CASE("the answer that comes soonest tells the time") {
  constexpr std::int64_t second = 1'000'000'000;
  clock_difference clock;
  for (int i = 0; i < 8; ++i) {
    CHECK_FALSE(clock.is_known());
    // All but one seem to have taken minutes in one direction.
    const auto delay = i == 5 ? 0 : 100 * second;
    const auto sent = clock_difference::question().asked - delay;
    clock.learn({sent, sent + delay + 7 * second});
  }
  CHECK(clock.is_known());
  CHECK(std::abs(clock.offset() - 7 * second) < second);
}
