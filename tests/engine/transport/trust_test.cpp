#include "troupe/engine/transport/trust/trust.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::string long_token(32, 't');

trust_kind choice(const std::string& at, const credentials& shown) {
  return choose_trust(parse_endpoint(at), shown);
}

[[gnu::noinline]] void check_refused(const std::string& at,
                                     const credentials& shown,
                                     const std::string& because) {
  CHECK_THROWS_MATCHES(choice(at, shown), error,
                       MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("a unix socket needs no token, and takes one") {
  CHECK(choice("unix:/x", {}) == trust_kind::none);
  CHECK(choice("unix:/x", {.token = "t"}) == trust_kind::token);
}

TEST_CASE("loopback needs a token") {
  for (const auto* at : {"tcp:127.0.0.1:1", "tcp:127.9.9.9:1", "tcp:[::1]:1"}) {
    CHECK(choice(at, {.token = "t"}) == trust_kind::token);
    CHECK(choice(at, {.insecure = true}) == trust_kind::none);
    check_refused(at, {}, "give the job a token");
  }
  CHECK(choice("tcp:127.0.0.1:1", {.token = "t", .certificates = "x"})
        == trust_kind::certificates);
}

TEST_CASE("off loopback nothing goes in plain text unless that is asked for") {
  for (const auto* at : {"tcp:10.0.0.1:1", "tcp:0.0.0.0:1", "tcp:[::]:1"}) {
    CHECK(choice(at, {.token = long_token}) == trust_kind::pre_shared_key);
    CHECK(choice(at, {.token = long_token, .insecure = true})
          == trust_kind::pre_shared_key);
    CHECK(choice(at, {.certificates = "x"}) == trust_kind::certificates);
    CHECK(choice(at, {.insecure = true}) == trust_kind::none);
    check_refused(at, {}, "certificates");
    check_refused(at, {.token = "short"}, "16 characters");
  }
}
