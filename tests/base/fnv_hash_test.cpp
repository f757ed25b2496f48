#include "troupe/base/fnv_hash.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

std::uint64_t hash_of(std::string_view text) {
  fnv_hash hash;
  hash.add(text);
  return hash.value();
}

}  // namespace

TEST_CASE("texts have the published hashes") {
  CHECK(hash_of("") == 0xcbf29ce484222325U);
  CHECK(hash_of("a") == 0xaf63dc4c8601ec8cU);
  CHECK(hash_of("foobar") == 0x85944171f73967e8U);
}

TEST_CASE("a number is hashed as its eight bytes") {
  fnv_hash number;
  number.add(std::int32_t{'a'});
  CHECK(number.value() == hash_of(std::string_view("a\0\0\0\0\0\0\0", 8)));
}
