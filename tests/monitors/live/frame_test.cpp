#include "troupe/monitors/live/frame.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::string header(std::uint16_t version, std::uint16_t type,
                   std::uint32_t length) {
  auto bytes = frame_bytes(live_type::hello, {});
  bytes[4] = static_cast<char>(version);
  bytes[6] = static_cast<char>(type & 255U);
  bytes[7] = static_cast<char>(type >> 8U);
  for (int i = 0; i < 4; ++i)
    bytes[static_cast<std::size_t>(8 + i)] =
      static_cast<char>((length >> (8 * i)) & 255U);
  return bytes;
}

void check_refused(const std::string& bytes, const std::string& because) {
  frame_parser parser;
  parser.add(bytes);
  CHECK_THROWS_MATCHES(parser.next(), error,
                       MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("frames come out of bytes that come one at a time") {
  const auto bytes = frame_bytes(live_type::request, "{\"do\":\"list\"}")
                     + frame_bytes(live_type::answer, "");
  frame_parser parser;
  std::vector<live_frame> found;
  for (const char byte : bytes) {
    parser.add({&byte, 1});
    while (auto frame = parser.next())
      found.push_back(*frame);
  }
  REQUIRE(found.size() == 2);
  CHECK(found[0].type == live_type::request);
  CHECK(found[0].payload == "{\"do\":\"list\"}");
  CHECK(found[1].type == live_type::answer);
  CHECK(found[1].payload.empty());
}

TEST_CASE("what is no frame is refused at its header") {
  check_refused("GET", "not a frame");
  check_refused(header(9, 1, 0), "version 9 of the protocol");
  check_refused(header(9, 1, 0), "speaks version 1");
  check_refused(header(1, 0, 0), "unknown type 0");
  check_refused(header(1, 11, 0), "unknown type 11");
  check_refused(header(1, 4, live_payload_limit + 1), "1048577 bytes");
  check_refused(header(1, 4, 0xffffffffU), "4294967295 bytes");
  CHECK_THROWS_AS(
    frame_bytes(live_type::event, std::string(live_payload_limit + 1, 'x')),
    error);
}

TEST_CASE("a parser's limit holds from the next frame on") {
  const auto bytes = frame_bytes(live_type::request, std::string(100, 'x'));
  frame_parser parser(10);
  parser.add(bytes);
  CHECK_THROWS_AS(parser.next(), error);
  parser.set_limit(100);
  CHECK(parser.next()->payload.size() == 100);
}

TEST_CASE("no bytes make the parser fail but by an error") {
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto bytes = frame_bytes(live_type::request, std::string(i % 50, 'y'))
                 + frame_bytes(live_type::hello, "{}");
    for (auto changes = random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    frame_parser parser;
    parser.add(bytes);
    try {
      while (parser.next())
        ;
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::transport);
      ++refused;
    }
  }
  CHECK(refused > 1000);
}
