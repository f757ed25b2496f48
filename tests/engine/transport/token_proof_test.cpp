#include "troupe/engine/transport/trust/token_proof.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"

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

[[gnu::noinline]] void check_refused(token_proof& by, const std::string& bytes,
                                     const std::string& because) {
  CHECK_THROWS_MATCHES(by.take(bytes), error,
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

TEST_CASE("two sides that know the token prove it to each other") {
  token_proof client(link_side::client, "token");
  token_proof server(link_side::server, "token");
  CHECK(server.to_send().empty());
  const auto hello = client.to_send();
  CHECK(hello.size() == token_proof::hello_bytes);
  CHECK(client.to_send().empty());
  server.take(hello);
  client.take(server.to_send());
  const auto proof = client.to_send();
  CHECK(proof.size() == token_proof::proof_bytes);
  CHECK(client.wanted() == token_proof::proof_bytes);
  server.take(proof);
  CHECK(server.wanted() == 0);
  client.take(server.to_send());
  CHECK(client.wanted() == 0);
}

TEST_CASE("no token, another token, and proofs of others are refused") {
  token_proof client(link_side::client, "token");
  token_proof server(link_side::server, "another");
  const auto hello = client.to_send();
  server.take(hello);
  client.take(server.to_send());
  const auto proof = client.to_send();
  check_refused(server, proof, "another token");
  CHECK(server.to_send().empty());

  // A client that is sent its own bytes back.
  token_proof alone(link_side::client, "token");
  check_refused(alone, alone.to_send(), "wrong end of the link");
  // A proof that was right for other random bytes.
  token_proof later(link_side::server, "token");
  later.take(hello);
  check_refused(later, proof, "another token");
}

TEST_CASE("hellos that are none say what to do") {
  const auto good = token_proof(link_side::client, "token").to_send();
  token_proof server(link_side::server, "token");
  check_refused(server, "GET / HTTP/1.1" + std::string(26, ' '),
                "not a process of a troupe job");
  check_refused(server, '\x16' + std::string(39, ' '), "uses TLS");
  auto newer = good;
  newer[4] = 9;
  check_refused(server, newer, "with version 9, this program with 1");
}
