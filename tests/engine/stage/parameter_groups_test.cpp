#include "troupe/engine/stage/update/parameter_groups.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <functional>

#include "troupe/base/error.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::invalid_argument);
    return reason.what();
  }
  return {};
}

const std::vector<std::string> gpt_names = {
  "tok.weight", "pos.weight", "blocks.0.mlp.up.weight", "blocks.0.mlp.up.bias",
  "head.weight"};

at::Tensor with_gradient() {
  auto parameter = at::ones({3}).requires_grad_(true);
  parameter.mutable_grad() = at::full({3}, 0.5);
  return parameter;
}

}  // namespace

TEST_CASE("a group's text gives globs and settings") {
  const auto both = parse_parameter_group("tok.*,pos.*:lr*0.5,weight-decay=0");
  CHECK(both.names == "tok.*,pos.*");
  CHECK(both.learning_rate == 0.5);
  CHECK(both.weight_decay == 0.0);
  CHECK_FALSE(both.frozen);
  const auto frozen = parse_parameter_group("[[:alpha:]]*:frozen");
  CHECK(frozen.names == "[[:alpha:]]*");
  CHECK(frozen.frozen);
  CHECK_FALSE(parse_parameter_group("a:lr*2").weight_decay);
}

TEST_CASE("a group's text that says nothing is refused") {
  const auto refusal = [](const std::string& text) {
    return message_of([&] { parse_parameter_group(text); });
  };
  CHECK_THAT(refusal("tok.*"), ContainsSubstring("the colon is missing"));
  CHECK_THAT(refusal("tok.*:"), ContainsSubstring("'' is not a setting"));
  CHECK_THAT(refusal("tok.*:lr=3"),
             ContainsSubstring("'lr=3' is not a setting"));
  CHECK_THAT(refusal("tok.*:lr*x"),
             ContainsSubstring("'lr*x' is not a setting"));
  CHECK_THAT(refusal("tok.*:frozen,lr*2"),
             ContainsSubstring("frozen parameters have no other settings"));
  CHECK_THAT(refusal("tok.*:lr*-1"), ContainsSubstring("0 or more"));
  CHECK_THAT(refusal("tok.*:weight-decay=inf"), ContainsSubstring("0 or more"));
  CHECK_THAT(refusal(":frozen"), ContainsSubstring("is empty"));
  CHECK_THAT(refusal("[a:frozen"), ContainsSubstring("never closes it"));
}

TEST_CASE("the last group that matches counts, alone") {
  const parameter_groups groups = {
    {"blocks.*", 0.5, 0.0}, {"*.bias", 1, {}, true}, {"blocks.0.*", 3}};
  CHECK(group_of(groups, "tok.weight") == nullptr);
  CHECK(group_of(groups, "blocks.1.up.weight") == &groups[0]);
  CHECK(group_of(groups, "blocks.1.up.bias") == &groups[1]);
  CHECK(group_of(groups, "blocks.0.up.bias") == &groups[2]);
}

TEST_CASE("a glob that matches nothing is refused with the closest names") {
  const auto refusal = [](const parameter_groups& groups) {
    return message_of([&] { require_matching(groups, gpt_names); });
  };
  CHECK(refusal({}).empty());
  CHECK(refusal({{"tok.*,*.bias"}}).empty());
  CHECK_THAT(refusal({{"tok.*,haed.*"}}),
             ContainsSubstring("no parameter's name matches 'haed.*'; did you "
                               "mean head.weight?"));
  CHECK_THAT(refusal({{"xyzzy"}}),
             ContainsSubstring("there are tok.weight, pos.weight"));
  CHECK_THAT(refusal({{"*", 1, {}, true}}),
             ContainsSubstring("all parameters are frozen"));
  CHECK(refusal({{"*", 1, {}, true}, {"head.*"}}).empty());
}

TEST_CASE("frozen parameters require no gradient and are not trained") {
  const parameter_list all = {{"a", with_gradient()}, {"b", with_gradient()}};
  freeze(all, {{"b", 1, {}, true}});
  CHECK(all[0].second.requires_grad());
  CHECK_FALSE(all[1].second.requires_grad());
  const auto rest = trainable(all);
  REQUIRE(rest.size() == 1);
  CHECK(rest[0].first == "a");
}

TEST_CASE("groups change the learning rate and the weight decay") {
  for (const optimizer_options& options :
       {optimizer_options{sgd{.momentum = 0.9, .weight_decay = 0.1}},
        optimizer_options{adamw{.weight_decay = 0.1}},
        optimizer_options{muon{}}}) {
    const auto a = with_gradient(), b = with_gradient(), c = with_gradient();
    optimizer grouped(options, {{"a", a}, {"b", b}, {"c", c}},
                      {{"b", 0.5, 0.0}, {"c", 0.25}});
    auto undecayed = options;
    std::visit([](auto& kind) { kind.weight_decay = 0; }, undecayed);
    const auto x = with_gradient(), y = with_gradient(), z = with_gradient();
    optimizer first(options, {{"x", x}}), second(undecayed, {{"y", y}}),
      third(options, {{"z", z}});
    for (int step = 0; step < 3; ++step) {
      grouped.step(0.1);
      first.step(0.1);
      second.step(0.05);
      third.step(0.025);
    }
    INFO(options.index());
    CHECK(at::equal(a, x));
    CHECK(at::equal(b, y));
    CHECK(at::equal(c, z));
    CHECK_FALSE(at::equal(a, b));
  }
}

TEST_CASE("groups with numbers that make no sense are refused") {
  const auto refusal = [](const parameter_group& group) {
    return message_of([&] { optimizer(sgd{}, {}, {group}); });
  };
  CHECK_THAT(refusal({"a", std::nan("")}), ContainsSubstring("factor"));
  CHECK_THAT(refusal({"a", 1, -0.5}), ContainsSubstring("weight decay"));
  CHECK_THAT(refusal({""}), ContainsSubstring("is empty"));
}

TEST_CASE("by default Muon leaves embeddings and heads to AdamW") {
  const auto except = muon{}.except;
  for (const auto* name : {"tok.weight", "pos.weight", "head.weight",
                           "lm_head.weight", "model.embed_tokens.weight",
                           "transformer.wte.weight", "transformer.wpe.weight",
                           "gpt_neox.embed_in.weight", "embed_out.weight"})
    CHECK(matches_glob(except, name));
  for (const auto* name :
       {"blocks.0.attn.weight", "model.layers.0.self_attn.q_proj.weight",
        "transformer.h.0.attn.c_attn.weight",
        "gpt_neox.layers.0.attention.query_key_value.weight"})
    CHECK_FALSE(matches_glob(except, name));
}

TEST_CASE("parameters without decay keep what their groups set") {
  const auto groups = without_decay(
    {parse_parameter_group("b*:lr*0.5"), parse_parameter_group("c:frozen"),
     parse_parameter_group("d:weight-decay=0.3")},
    {"a", "b1", "b2", "c", "d"});
  CHECK(groups.size() == 5);
  for (const auto* name : {"a", "b1", "b2"})
    CHECK(group_of(groups, name)->weight_decay == 0);
  CHECK(group_of(groups, "a")->learning_rate == 1);
  CHECK(group_of(groups, "b1")->learning_rate == 0.5);
  CHECK(group_of(groups, "c")->frozen);
  CHECK(group_of(groups, "d")->weight_decay == 0.3);
  CHECK(group_of(groups, "e") == nullptr);
  CHECK(without_decay({}, {}).empty());
}
