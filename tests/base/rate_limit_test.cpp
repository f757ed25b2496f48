#include "troupe/base/rate_limit.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace std::chrono_literals;

TEST_CASE("a rate limit lets some pass at once, and then one after a while") {
  const auto start = rate_limit::clock::now();
  rate_limit limit(3, 10s, start);
  for (int i = 0; i < 3; ++i)
    CHECK(limit.pass(start) == 0);
  for (int i = 0; i < 7; ++i)
    CHECK_FALSE(limit.pass(start + 9s));
  CHECK(limit.suppressed() == 7);
  CHECK(limit.pass(start + 10s) == 7);
  CHECK_FALSE(limit.pass(start + 11s));
  // No more than at first, however long the pause.
  for (int i = 0; i < 3; ++i)
    CHECK(limit.pass(start + 24h) == (i == 0 ? 1 : 0));
  CHECK_FALSE(limit.pass(start + 24h));
}
