#include "troupe/engine/membership/failure_text.hpp"

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

#include "../../fuzz/token_mutator.hpp"
#include "troupe/base/error.hpp"

using namespace troupe::membership;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("what is to be done on failures is read from a text") {
  CHECK(parse_failure_policy("process=rehost,op=stop") == failure_policy{});
  const auto read =
    parse_failure_policy("op=retry:5/90s,process=restart:2/1h:45s");
  CHECK(read.lost_member == failure_rule{remedy::restart, 2, 1h});
  CHECK(read.failed_op == failure_rule{remedy::retry, 5, 90s});
  CHECK(read.restart_patience == 45s);
  const auto partly = parse_failure_policy("op=rehost");
  CHECK(partly.lost_member == failure_policy{}.lost_member);
  CHECK(partly.failed_op == failure_rule{remedy::rehost, 3, 10min});
}

TEST_CASE("the text of a policy is the policy in full") {
  CHECK(to_text({}) == "process=rehost:10/10min,op=stop");
  for (const std::string text :
       {"process=restart:1/2h:90s,op=rehost:1000000/1s",
        "process=stop,op=retry:3/10min"})
    CHECK(to_text(parse_failure_policy(text)) == text);
}

TEST_CASE("a policy that can't be read says what to write") {
  const auto refused = [](const std::string& text, const std::string& why) {
    INFO(text);
    CHECK_THROWS_WITH(parse_failure_policy(text), ContainsSubstring(why));
  };
  refused("", "'' is not among what can fail: process, op");
  refused("process=rehots", "restart, rehost, stop; did you mean rehost?");
  refused("proces=stop", "did you mean process?");
  refused("process", "'' is not among what can be done about that");
  refused("op=restart", "retry, rehost, stop");
  refused("process=retry", "restart, rehost, stop");
  refused("op=stop,op=retry", "in 'op=retry': op is there twice");
  refused("op=stop,", "in '': '' is not among");
  refused("op=stop:1/2s", "stop has no limit");
  refused("op=retry:3", "'3' is no limit; write how many");
  refused("op=retry:", "'' is no limit");
  refused("op=retry:0/10min", "'0/10min' is no limit");
  refused("op=retry:3/10", "'10' is no time");
  refused("op=retry:3/10m", "'10m' is no time");
  refused("op=retry:3/99999999999h", "is no time");
  refused("op=retry:3/10min:30s", "'30s' is too much");
  refused("process=restart:3/10min:", "'' is no time");
  refused("process=restart:3/10min:1s:1s", "'1s' is too much");
}

TEST_CASE("shuffled tokens make a policy that is read again, or are refused") {
  const std::vector<std::string> texts{
    "process=restart:10/10min:30s,op=retry:3/10min",
    "process=stop,op=rehost:1/2h", "op=stop,process=rehost:7/90s"};
  int legal = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    troupe::testing::token_mutator random(seed);
    const auto text = random.mutate(texts[seed % 3], texts[seed / 3 % 3]);
    INFO(text);
    try {
      const auto read = parse_failure_policy(text);
      CHECK(parse_failure_policy(to_text(read)) == read);
      ++legal;
    } catch (const troupe::error& reason) {
      CHECK(reason.code() == troupe::error_code::invalid_argument);
    }
  }
  CHECK(legal > 1000);
  CHECK(legal < 19000);
}
