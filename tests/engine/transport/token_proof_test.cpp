#include "troupe/engine/transport/trust/token_proof.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/trust/keys.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::string bytes_of(std::initializer_list<int> values) {
  std::string made;
  for (const auto value : values)
    made += static_cast<char>(value);
  return made;
}

std::string text(const secret_key& key) {
  return {key.begin(), key.end()};
}

[[gnu::noinline]] void check_hello_refused(const std::string& hello,
                                           const std::string& because) {
  CHECK_THROWS_MATCHES(require_token_hello(hello, link_side::client), error,
                       MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("keys and hashes match the standards") {
  // RFC 5869, test case 1, its first 32 bytes.
  const auto key = derive_key(
    std::string(22, '\x0b'),
    bytes_of({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
    bytes_of({0xf0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9}));
  CHECK(text(key)
        == bytes_of({0x3c, 0xb2, 0x5f, 0x25, 0xfa, 0xac, 0xd5, 0x7a,
                     0x90, 0x43, 0x4f, 0x64, 0xd0, 0x36, 0x2f, 0x2a,
                     0x2d, 0x2d, 0x0a, 0x90, 0xcf, 0x1a, 0x5a, 0x4c,
                     0x5d, 0xb0, 0x2d, 0x56, 0xec, 0xc4, 0xc5, 0xbf}));
  // RFC 4231, test case 1; its key of 20 bytes, filled up with zeros.
  secret_key twenty{};
  std::fill_n(twenty.begin(), 20, static_cast<unsigned char>(0x0b));
  CHECK(keyed_hash(twenty, "Hi There").substr(0, 4)
        == bytes_of({0xb0, 0x34, 0x4c, 0x61}));
  CHECK(random_bytes(32) != random_bytes(32));
}

TEST_CASE("a proof depends on the token, the side and both hellos") {
  const auto client = token_hello(link_side::client);
  const auto server = token_hello(link_side::server);
  CHECK(client.size() == token_hello_bytes);
  require_token_hello(client, link_side::client);
  require_token_hello(server, link_side::server);
  const auto proof = token_proof("token", link_side::client, client, server);
  CHECK(proof.size() == token_proof_bytes);
  CHECK(proof == token_proof("token", link_side::client, client, server));
  CHECK(proof != token_proof("another", link_side::client, client, server));
  CHECK(proof != token_proof("token", link_side::server, client, server));
  // Of other random bytes.
  CHECK(proof
        != token_proof("token", link_side::client, client,
                       token_hello(link_side::server)));
}

TEST_CASE("hellos that are none say what to do") {
  const auto good = token_hello(link_side::client);
  require_token_hello(good.substr(0, 3), link_side::client);
  check_hello_refused("G", "not a process of a troupe job");
  check_hello_refused("GET / HTTP/1.1" + std::string(26, ' '),
                      "not a process of a troupe job");
  check_hello_refused('\x16' + std::string(39, ' '), "uses TLS");
  auto newer = good;
  newer[4] = 9;
  check_hello_refused(newer, "with version 9, this program with 1");
  // A side that is sent its own bytes back.
  check_hello_refused(token_hello(link_side::server), "wrong end of the link");
}
