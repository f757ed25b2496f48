#include "troupe/monitors/http/access.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../../says.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const access_tokens two_tokens{.watch = "a-token-to-watch-with",
                               .control = "a-token-to-control-with"};

}  // namespace

TEST_CASE("control includes watching, and not the other way round") {
  using enum access_right;
  CHECK(includes(control, watch));
  CHECK(includes(watch, watch));
  CHECK_FALSE(includes(watch, control));
  require_right(control, control, "to replan it");
  CHECK_THROWS_MATCHES(require_right(watch, control, "to replan it"), error,
                       says("needed to replan it; connect with the token of "
                            "the job's --endpoint-control-token-file"));
}

TEST_CASE("a token gives its own right, and no other text does") {
  CHECK(right_of(two_tokens, two_tokens.watch) == access_right::watch);
  CHECK(right_of(two_tokens, two_tokens.control) == access_right::control);
  for (const std::string text :
       {"", "a-token-to-watch-witi", "a-token-to-watch-wit"})
    CHECK_FALSE(right_of(two_tokens, text));
  const access_tokens one{.control = two_tokens.control};
  CHECK_FALSE(right_of(one, ""));
  CHECK(tokens_in_use(one).size() == 1);
  CHECK(access_tokens{}.empty());
}

TEST_CASE("tokens that are short or equal are refused") {
  require_legal({});
  require_legal(two_tokens);
  CHECK_THROWS_MATCHES(require_legal({.watch = "short"}), error,
                       says("at least 16 characters"));
  CHECK_THROWS_MATCHES(
    require_legal({.watch = two_tokens.watch, .control = two_tokens.watch}),
    error, says("are the same"));
}
