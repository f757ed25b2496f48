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

[[gnu::noinline]] void check_trust_refused(const std::string& at,
                                           const credentials& shown,
                                           const std::string& because) {
  CHECK_THROWS_MATCHES(choice(at, shown), error,
                       MessageMatches(ContainsSubstring(because)));
}

}  // namespace

TEST_CASE("a unix socket needs no token, as its ends check their users") {
  CHECK(choice("unix:/x", {}) == trust_kind::none);
  CHECK(choice("unix:/x", {.token = long_token}) == trust_kind::none);
}

TEST_CASE("nothing goes over TCP in plain text unless that is asked for") {
  for (const auto* at : {"tcp:127.0.0.1:1", "tcp:127.9.9.9:1", "tcp:[::1]:1",
                         "tcp:10.0.0.1:1", "tcp:0.0.0.0:1", "tcp:[::]:1"}) {
    CHECK(choice(at, {.token = long_token}) == trust_kind::pre_shared_key);
    CHECK(choice(at, {.token = long_token, .insecure = true})
          == trust_kind::pre_shared_key);
    CHECK(choice(at, {.token = long_token, .certificates = "x"})
          == trust_kind::certificates);
    CHECK(choice(at, {.certificates = "x"}) == trust_kind::certificates);
    CHECK(choice(at, {.insecure = true}) == trust_kind::none);
    for (const auto* way : {"--job-token-file", "--certificates", "--insecure"})
      check_trust_refused(at, {}, way);
    check_trust_refused(at, {.token = "short"}, "16 characters");
  }
}
