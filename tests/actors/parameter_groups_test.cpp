#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

#include "small_model.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

parameter_group frozen(const std::string& names) {
  return {names, 1, {}, true};
}

/// Half of the layers' weights; whole layers; one parameter of a custom layer.
const std::vector<parameter_groups> several_groups = {
  {{"tok.*,pos.*", 0.5, 0.0}, {"*.bias", 2}, frozen("blocks.0.*")},
  {frozen("tok.*"), frozen("blocks.*.attn.qkv.weight"), {"head.*", 0.1}},
  {frozen("*"), {"*.ln?.*", 3, 0.0}, {"head.bias"}},
  {frozen("tok.*,pos.*,blocks.*.up.bias,ln_f.*")},
};

void check_groups(small_case what, int steps = 3) {
  for (std::size_t i = 0; i < several_groups.size(); ++i) {
    INFO(describe(what) << ", groups " << i);
    what.groups = several_groups[i];
    CHECK(compare_with_plain(what, steps) == "");
  }
}

std::string refusal_of(const parameter_groups& groups) {
  try {
    trainer_for({.groups = groups}, nullptr);
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::invalid_argument);
    return reason.what();
  }
  return {};
}

}  // namespace

TEST_CASE("groups and frozen parameters give the plain loop's bits") {
  for (const std::int32_t ranks : {1, 2, 3}) {
    check_groups({.ranks = ranks, .clip = 0.5});
    check_groups({.ranks = ranks, .data_parallel = 2});
    check_groups({.schedule = "zb_h1", .ranks = ranks});
    check_groups(
      {.schedule = "zb_h1", .ranks = ranks, .data_parallel = 2, .clip = 0.5},
      2);
  }
}

TEST_CASE("split backwards of frozen parameters give the plain loop's bits") {
  const auto split = GENERATE(weight_split::layers, weight_split::graph);
  check_groups({.schedule = "zb_h1", .ranks = 3, .weight_split = split}, 2);
  check_groups({.schedule = "zb_v",
                .ranks = 2,
                .stages_per_rank = 2,
                .recompute = true,
                .weight_split = split},
               2);
}

TEST_CASE("frozen parameters keep their bits under every kind of schedule") {
  check_groups({.schedule = "two_bw", .ranks = 2}, 2);
  check_groups({.schedule = "seq_1f1b", .ranks = 2, .slices = 2}, 2);
  check_groups({.schedule = "dualpipe", .ranks = 2, .microbatches = 4}, 2);
  check_groups({.ranks = 2, .use_sgd = true, .recompute = true}, 2);
}

TEST_CASE("frozen parameters are not updated and count in no norm") {
  const auto text = small_text();
  const small_case all{.ranks = 2},
    some{.ranks = 2, .groups = {frozen("blocks.*,tok.*")}};
  auto usual = trainer_for(all, nullptr), run = trainer_for(some, nullptr);
  parameter_list before;
  for (const auto& [name, value] : run.parameters())
    before.emplace_back(name, value.detach().clone());
  const auto whole = usual.step(text).summary.gradient_norm;
  const auto part = run.step(text).summary.gradient_norm;
  CHECK(part > 0);
  CHECK(part < whole);
  const auto after = run.parameters();
  REQUIRE(after.size() == before.size());
  for (std::size_t i = 0; i < after.size(); ++i) {
    const auto& [name, value] = after[i];
    INFO(name);
    const bool is_frozen =
      name.starts_with("blocks.") || name.starts_with("tok.");
    CHECK(at::equal(value, before[i].second) == is_frozen);
    CHECK(value.requires_grad() != is_frozen);
    if (is_frozen)
      CHECK_FALSE(value.grad().defined());
  }
}

TEST_CASE("a glob without a parameter is refused with the closest names") {
  CHECK_THAT(refusal_of({frozen("block.*.mlp*")}),
             ContainsSubstring("no parameter's name matches 'block.*.mlp*'")
               && ContainsSubstring("blocks.0.mlp"));
  CHECK_THAT(refusal_of({frozen("*")}),
             ContainsSubstring("all parameters are frozen"));
  const small_case what{.groups = {frozen("haed.*")}};
  CHECK_THROWS_AS(plain_loop(model_for(what), plain_options_for(what)), error);
}
