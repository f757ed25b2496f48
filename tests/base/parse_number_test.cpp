#include "troupe/base/parse_number.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>

using namespace troupe;

TEST_CASE("a number is the whole text, and fits its type") {
  CHECK(parse_number<std::int32_t>("-12") == -12);
  CHECK(parse_number<double>("1e-3") == 0.001);
  for (const auto* text : {"", "1x", " 1", "1.5", "99999999999", "two"})
    CHECK_FALSE(parse_number<std::int32_t>(text));
}
