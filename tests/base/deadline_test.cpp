#include "troupe/base/deadline.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace troupe;

TEST_CASE("a deadline that has come or never comes") {
  CHECK(deadline(0).milliseconds() == 0);
  CHECK(deadline(-5).milliseconds() == 0);
  CHECK(deadline(std::numeric_limits<double>::infinity()).milliseconds() == -1);
}

TEST_CASE("a time span has bounds") {
  constexpr auto infinity = std::numeric_limits<double>::infinity();
  CHECK(milliseconds_of(0.25).count() == 250);
  CHECK(milliseconds_of(-1).count() == 0);
  CHECK(milliseconds_of(std::nan("")).count() == 0);
  CHECK(milliseconds_of(infinity).count() == 1'000'000'000'000);
}

TEST_CASE("a deadline counts down, to what poll takes") {
  const auto rest = deadline(60).milliseconds();
  CHECK(rest > 50'000);
  CHECK(rest <= 60'000);
  CHECK(deadline(1e30).milliseconds() == 1 << 30);
}
