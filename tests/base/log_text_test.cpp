#include "troupe/base/log_text.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("a text can't forge lines of a log") {
  CHECK(log_text("plain") == "plain");
  CHECK(log_text("a\ntroupe: warning: b\r\x1b[2J")
        == "a\n    troupe: warning: b\\x0D\\x1B[2J");
  CHECK(log_text(std::string(2000, 'x'), 10) == "xxxxxxxxxx...");
}
