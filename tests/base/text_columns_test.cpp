#include "troupe/base/text_columns.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("a character of several bytes takes one column") {
  CHECK(columns_of("") == 0);
  CHECK(columns_of("█░ 5 µs") == 7);
  CHECK(clipped("█░ 5 µs", 2) == "█░");
  CHECK(clipped("█░", 5) == "█░");
  CHECK(clipped("█░", 0).empty());
}
