#include <catch2/catch_test_macros.hpp>

#include <set>

#include "troupe/base/error.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/engine/events/interest.hpp"

using namespace troupe;

namespace {

event_source at_step(std::int64_t step) {
  event_source source;
  source.step = step;
  return source;
}

}  // namespace

TEST_CASE("each event has a name of its own") {
  const auto names = []<class... Kinds>(const std::variant<Kinds...>&) {
    return std::set<std::string>{Kinds::kind...};
  };
  CHECK(names(event{}).size() == std::variant_size_v<event>);
}

TEST_CASE("a subscription covers what it asks for and no more") {
  subscription wants;
  CHECK_FALSE(wants.covers(tensors_event{at_step(10)}));
  wants.tensors = tensor_kind::activation | tensor_kind::gradient;
  CHECK(wants.covers(tensors_event{at_step(10)}));
  CHECK(wants.covers(step_event{}));
  wants.every = 10;
  CHECK_FALSE(wants.covers(tensors_event{at_step(11)}));
  CHECK(wants.covers(step_event{at_step(20)}));
  CHECK_FALSE(wants.covers(step_event{at_step(21)}));
  CHECK(wants.covers(failure_event{at_step(21), {}, {}}));
  CHECK_FALSE(wants.covers(ops_event{at_step(20), {}}));
  CHECK_FALSE(wants.covers(messages_event{at_step(20), {}}));
  CHECK_FALSE(wants.covers(memory_event{at_step(20)}));
  wants.messages = wants.memory = true;
  CHECK(wants.covers(messages_event{at_step(20), {}}));
  CHECK(wants.covers(memory_event{at_step(20)}));
  CHECK_FALSE(wants.covers(memory_event{at_step(21)}));
}

TEST_CASE("names are chosen by globs, several joined by commas") {
  CHECK(matches_glob("*", "blocks.3.mlp.up"));
  CHECK(matches_glob("blocks.*.mlp.*", "blocks.3.mlp.up"));
  CHECK(matches_glob("head,blocks.?.mlp*", "blocks.3.mlp.up"));
  CHECK_FALSE(matches_glob("blocks.*.attn*", "blocks.3.mlp.up"));
  CHECK_FALSE(matches_glob("head,tok", "blocks.3.mlp.up"));
  CHECK_FALSE(matches_glob("", "a"));
}

TEST_CASE("a glob that could match nothing is refused") {
  subscription wants;
  wants.tensors = tensor_kind::activation;
  for (const auto* good : {"*", "blocks.[0-3].*,head", "[!a]x", "[]]", "a\\[b",
                           "[]a]*", "[-a][a-]"}) {
    wants.names = good;
    CHECK_NOTHROW(require_legal(wants));
  }
  for (const auto* bad :
       {"", "a,", "[", "blocks.[0-", "[]", "[!]", "a\\", "[z-a]", "[a9-0]"}) {
    wants.names = bad;
    CHECK_THROWS_AS(require_legal(wants), error);
  }
  wants.tensors = tensor_kind::none;  // names don't matter
  CHECK_NOTHROW(require_legal(wants));
  wants.every = 0;
  CHECK_THROWS_AS(require_legal(wants), error);
}

TEST_CASE("interest joins the needs of all monitors") {
  subscription statistics{.tensors = tensor_kind::activation, .names = "a*"};
  subscription handles{.tensors = tensor_kind::activation,
                       .needs = tensor_needs::handle,
                       .names = "ab"};
  const tensor_interest all({statistics, handles});
  CHECK(all.needs(tensor_kind::activation, "ac") == tensor_needs::statistics);
  CHECK(all.needs(tensor_kind::activation, "ab")
        == (tensor_needs::statistics | tensor_needs::handle));
  CHECK(all.needs(tensor_kind::activation, "b") == tensor_needs::none);
  CHECK(all.needs(tensor_kind::gradient, "ab") == tensor_needs::none);
}

TEST_CASE("a sample is enough where nobody wants statistics") {
  const tensor_interest all(
    {{.tensors = tensor_kind::activation, .sample = {0.01, 7}, .names = "a*"},
     {.tensors = tensor_kind::activation, .sample = {0.02, 5}, .names = "b"},
     {.tensors = tensor_kind::activation,
      .needs = tensor_needs::extremes,
      .names = "ab"},
     {.tensors = tensor_kind::activation, .names = "ac"}});
  const auto needs = [&](const std::string& name) {
    return all.needs(tensor_kind::activation, name);
  };
  CHECK(needs("a") == tensor_needs::sample);
  CHECK(needs("ab") == (tensor_needs::sample | tensor_needs::extremes));
  CHECK(has(needs("ac"), tensor_needs::statistics));
  CHECK(all.sampling() == row_sampling{0.02, 5});
  for (const auto share : {-0.1, 1.1, double(NAN)})
    CHECK_THROWS_AS(require_legal({.sample = {share, 0}}), error);
}

TEST_CASE("means of one name are merged by their counts") {
  std::vector<named_value> values;
  merge(values, {"a", 1, 1});
  merge(values, {"b", 7, 1});
  merge(values, {"a", 4, 2});
  REQUIRE(values.size() == 2);
  CHECK(values[0].value == 3);
  CHECK(values[0].count == 3);
}
