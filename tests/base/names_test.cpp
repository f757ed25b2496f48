#include "troupe/base/names.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::Message;

TEST_CASE("a name gives the value at its place, or the names that there are") {
  enum class order { strict, loose };
  constexpr std::string_view names[]{"strict", "loose"};
  CHECK(parse_named<order>("loose", names, "order") == order::loose);
  CHECK_THROWS_MATCHES(
    parse_named<order>("lo\x01se", names, "order"), error,
    Message("unknown order 'lo\\x01se': known orders are strict, loose"));
}
