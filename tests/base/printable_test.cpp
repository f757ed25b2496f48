#include "troupe/base/printable.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("terminal control characters are shown as their numbers") {
  CHECK(printable("0F0;~ ") == "0F0;~ ");
  CHECK(printable("a\033[2J\r\n\177") == "a\\x1B[2J\\x0D\\x0A\\x7F");
  CHECK(printable("\xc3\xa9") == "\\xC3\\xA9");
}

TEST_CASE("long text is cut") {
  CHECK(printable(std::string(80, 'x')) == std::string(80, 'x'));
  CHECK(printable(std::string(81, 'x')) == std::string(80, 'x') + "...");
  CHECK(printable("abc", 2) == "ab...");
}
