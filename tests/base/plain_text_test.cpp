#include "troupe/base/printable.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("what would make a terminal do things is shown instead") {
  CHECK(plain_text("a line\n\tand a tab") == "a line\n\tand a tab");
  CHECK(plain_text("\033[2J\a\r\b\x7f") == "\\x1B[2J\\x07\\x0D\\x08\\x7F");
  CHECK(plain_text(std::string_view("\0", 1)) == "\\x00");
  // The same introducers as one character, and as a byte.
  CHECK(plain_text("\xc2\x9b" "2J") == "\\xC2\\x9B" "2J");
  CHECK(plain_text("\x9b" "2J") == "\\x9B" "2J");
}

TEST_CASE("text of other languages is shown as it is") {
  for (const auto* text : {"caf\xc3\xa9", "\xe2\x96\x88", "\xf0\x9f\x8e\xad"})
    CHECK(plain_text(text) == text);
  CHECK(plain_text("a\xe2\x80\xae"
                   "b")
        == "a\\xE2\\x80\\xAEb");
  CHECK(plain_text("\xe2\x81\xa6") == "\\xE2\\x81\\xA6");
  CHECK(plain_text("\xe2\x80\x9c") == "\xe2\x80\x9c");  // a quote
  CHECK(plain_text("\xe2\x96") == "\\xE2\\x96");        // cut off
  CHECK(plain_text("\xc0\x9b") == "\\xC0\\x9B");        // too long a form
}
