#include "troupe/base/median.hpp"

#include <catch2/catch_test_macros.hpp>

using troupe::median;

TEST_CASE("a median is the middle value, or the upper one of two") {
  CHECK(median({5}) == 5);
  CHECK(median({9, 1, 5}) == 5);
  CHECK(median({4, 1, 3, 2}) == 3);
}
