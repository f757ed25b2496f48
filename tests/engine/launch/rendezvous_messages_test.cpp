#include "troupe/engine/launch/rendezvous_messages.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../../field_bytes.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a rendezvous with disturbed fields is read whole or refused") {
  const auto good = fields_in(join_request{
    1, 2, 77, "host", {"tcp:127.0.0.1:8", "m", "unix:/a"}, {{"--ranks", "2"}}});
  REQUIRE(good.joined()
          == to_frame(join_request{1,
                                   2,
                                   77,
                                   "host",
                                   {"tcp:127.0.0.1:8", "m", "unix:/a"},
                                   {{"--ranks", "2"}}})
               .head.substr(1));
  std::mt19937_64 random(3);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    // The first byte is the kind.
    const auto head = std::string(1, '\0') + disturbed(good, random).joined();
    try {
      const auto read = read_rendezvous({frame_type::control, head, {}});
      CHECK(to_frame(read).head == head);
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::transport);
      ++refused;
    }
  }
  CHECK(refused > 2000);
}
