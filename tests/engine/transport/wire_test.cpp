#include "troupe/engine/transport/wire.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

enum class colour : std::uint8_t { red, green };

struct inner_part {
  std::int32_t size = 0;
  std::vector<std::string> words;
};
TROUPE_FIELDS(inner_part, size, words)

struct whole_message {
  bool flag = false;
  colour paint = colour::red;
  inner_part part;
  std::optional<double> last;
};
TROUPE_FIELDS(whole_message, flag, paint, part, last)

void check_bytes_refused(const std::string& bytes, const std::string& why) {
  CHECK_THROWS_MATCHES(from_wire<whole_message>(bytes), error,
                       MessageMatches(ContainsSubstring(why)));
}

}  // namespace

template <>
inline constexpr auto troupe::largest_value<colour> = colour::green;

TEST_CASE("a message comes back as it was, and any part of it is refused") {
  const whole_message sent{true, colour::green, {-7, {"a", "bc"}}, 0.5};
  const auto bytes = to_wire(sent);
  const auto read = from_wire<whole_message>(bytes);
  CHECK(read.flag);
  CHECK(read.paint == colour::green);
  CHECK(read.part.size == -7);
  CHECK(read.part.words == sent.part.words);
  CHECK(read.last == 0.5);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    CHECK_THROWS_AS(from_wire<whole_message>(bytes.substr(0, length)), error);
}

TEST_CASE("what a message can't have is refused by the name of its field") {
  const auto good = to_wire(whole_message{});
  check_bytes_refused({}, "fewer bytes than it announces at its field 'flag'");
  check_bytes_refused("\2" + good.substr(1),
                      "a flag that is neither 0 nor 1 at its field 'flag'");
  check_bytes_refused(good.substr(0, 1) + "\2" + good.substr(2),
                      "an invalid value at its field 'paint'");
  check_bytes_refused(good.substr(0, 4), "announces at its field 'size'");
  check_bytes_refused(good.substr(0, 6) + "\xff" + good.substr(7),
                      "more items than bytes at its field 'words'");
  check_bytes_refused(good + "x", "bytes beyond its end");
}
