#include "troupe/engine/stage/ties.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <functional>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

at::Tensor first_values(double scale) {
  return at::arange(40, at::kFloat).remainder(7).sub(3).view({8, 5}) * scale;
}

/// An embedding of 8 ids.
struct table : stage_module {
  explicit table(double scale, at::Device on = at::kCPU) {
    weight = register_parameter("weight", first_values(scale).to(on));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {at::embedding(weight, inputs[0])};
  }
  at::Tensor weight;
};

/// Maps back to logits of ids.
struct logits_of : stage_module {
  explicit logits_of(at::Device on = at::kCPU) {
    weight = register_parameter("weight", first_values(2).to(on));
    bias = register_parameter("bias", at::zeros({8}, on));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {at::linear(inputs[0].tanh(), weight, bias)};
  }
  at::Tensor weight, bias;
};

/// Both, with one shared parameter.
struct shared_table final : stage_module {
  shared_table() {
    weight = register_parameter("weight", first_values(0.1));
    bias = register_parameter("bias", at::zeros({8}));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {at::linear(at::embedding(weight, inputs[0]).tanh(), weight, bias)};
  }
  at::Tensor weight, bias;
};

struct identity final : stage_module {
  tensor_list forward(const tensor_list& inputs) override { return inputs; }
};

model tied_model(std::vector<tied_parameter> ties = {
                   {"head.weight", "tok.weight"}}) {
  return {{"tok", [] { return std::make_shared<table>(0.1); }},
          {"head",
           [] { return std::make_shared<logits_of>(); },
           {},
           {},
           std::move(ties)}};
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

std::string refused(std::vector<tied_parameter> ties) {
  return refusal([&] { ties_of(tied_model(std::move(ties))); });
}

microbatch_data ids(std::int64_t first) {
  const auto row = at::arange(first, first + 5, at::kLong).remainder(8);
  return {{row.view({1, 5})}, {(row + 1).remainder(8).view({1, 5})}, {}, 5};
}

const at::Tensor& named(const parameter_list& all, const std::string& name) {
  for (const auto& [own, value] : all)
    if (own == name)
      return value;
  throw std::out_of_range(name);
}

}  // namespace

TEST_CASE("ties are found, with their holders in model order") {
  const auto ties = ties_of(tied_model());
  REQUIRE(ties.size() == 1);
  CHECK(ties[0].owner() == "tok.weight");
  REQUIRE(ties[0].holders.size() == 2);
  CHECK(ties[0].holders[1].name == "head.weight");
  CHECK(ties[0].holders[1].layer == 1);
  CHECK(aliases_of(ties) == alias_names{{"head.weight", "tok.weight"}});
  CHECK(holding_stages(ties, {{0, 1}, {1, 2}})
        == std::vector<std::vector<std::int32_t>>{{0, 1}});
  CHECK(holding_stages(ties, {{0, 2}})
        == std::vector<std::vector<std::int32_t>>{{0, 0}});
  CHECK(trained_ties(ties, {{.names = "tok.*", .frozen = true}}).empty());
  CHECK(trained_ties(ties, {{.names = "head.*", .frozen = true}}).size() == 1);
}

TEST_CASE("all holders begin with the owner's values, wherever they are") {
  const layer_sequence head(tied_model(), {{0, 1}, {1, 2}}, 1);
  CHECK(at::equal(head.parameters_by_name()[0].second, first_values(0.1)));
}

TEST_CASE("layers with shapes on the meta device are made for values alone") {
  int calls = 0;
  auto layers = tied_model();
  for (auto& each : layers) {
    each.make = [&calls, make = each.make] {
      ++calls;
      return make();
    };
  }
  layers[0].make_on_meta = [] {
    return std::make_shared<table>(0.1, at::kMeta);
  };
  layers[1].make_on_meta = [] {
    return std::make_shared<logits_of>(at::kMeta);
  };
  CHECK(parameter_counts(layers) == std::vector<double>{40, 48});
  const auto ties = ties_of(layers);
  REQUIRE(ties.size() == 1);
  CHECK(ties[0].trained);
  CHECK(calls == 0);
  const layer_sequence head(layers, {{0, 1}, {1, 2}}, 1);
  CHECK(calls == 2);
  CHECK(at::equal(head.parameters_by_name()[0].second, first_values(0.1)));

  layers[0].make = [] { return std::make_shared<identity>(); };
  CHECK_THAT(refusal([&] {
               layer_sequence(layers, {{0, 1}, {1, 2}}, 1);
             }),
             ContainsSubstring("not by `make`"));
}

TEST_CASE("ties that make no sense are refused with both names") {
  CHECK(refused({{"head.wight", "tok.weight"}})
        == "layer 1 ('head') ties 'head.wight' to 'tok.weight': it has no "
           "parameter 'head.wight'; did you mean head.weight?");
  CHECK(refused({{"head.weight", "tok.wight"}})
        == "layer 1 ('head') ties 'head.weight' to 'tok.wight': neither it nor "
           "an earlier layer has a parameter 'tok.wight'; did you mean "
           "tok.weight?");
  CHECK_THAT(refused({{"head.bias", "tok.weight"}}),
             ContainsSubstring("one shape and dtype"));
  CHECK_THAT(refused({{"head.weight", "head.weight"}}),
             ContainsSubstring("the same parameter"));
  CHECK_THAT(
    refused({{"head.weight", "tok.weight"}, {"head.weight", "tok.weight"}}),
    ContainsSubstring("tied already, to 'tok.weight'"));
  auto frozen = tied_model();
  frozen[0].make = [] {
    auto layer = std::make_shared<table>(0.1);
    layer->weight.requires_grad_(false);
    return layer;
  };
  CHECK_THAT(refusal([&] { plain_loop(frozen, {}); }),
             ContainsSubstring("one of them is frozen"));
  auto chain = tied_model();
  chain.push_back({"more",
                   [] { return std::make_shared<logits_of>(); },
                   {},
                   {},
                   {{"more.weight", "head.weight"}}});
  CHECK_THAT(refusal([&] { ties_of(chain); }),
             ContainsSubstring("'tok.weight'; tie both to that one"));
}

TEST_CASE("all holders have the owner's settings") {
  const auto ties = ties_of(tied_model());
  numerics settings;
  settings.parameters = {{.names = "tok.*", .learning_rate = 0.5},
                         {.names = "head.*", .frozen = true}};
  const auto adapted = with_settings_of_owners(settings, ties);
  const auto* own = group_of(adapted.parameters, "head.weight");
  REQUIRE(own != nullptr);
  CHECK(own->learning_rate == 0.5);
  CHECK_FALSE(own->frozen);
  CHECK(group_of(adapted.parameters, "head.bias")->frozen);
  settings.parameters = {{.names = "head.weight", .frozen = true}};
  CHECK(refusal([&] { with_settings_of_owners(settings, ties); })
        == "'head.weight' is tied to 'tok.weight', and has its settings; "
           "assign them to that name");
  settings.parameters = {};
  settings.optimizer = muon{.except = "tok.*"};
  CHECK_THAT(refusal([&] { with_settings_of_owners(settings, ties); }),
             ContainsSubstring("'tok.weight' and 'head.weight'"));
}

TEST_CASE("a tied model trains as one whose layers share a parameter") {
  plain_options options;
  options.microbatches = 3;
  options.numerics.optimizer = sgd{.learning_rate = 0.3, .momentum = 0.5};
  options.numerics.clip = 0.2;
  plain_loop tied(tied_model(), options);
  plain_loop shared({{"", [] { return std::make_shared<shared_table>(); }}},
                    options);
  for (int i = 0; i < 6; ++i) {
    const auto load = [&](std::int64_t k) { return ids(3 * i + k); };
    const auto own = tied.step(load);
    const auto theirs = shared.step(load);
    CHECK(std::abs(own.loss - theirs.loss) < 1e-5);
    CHECK(std::abs(own.gradient_norm - theirs.gradient_norm) < 1e-5);
    CHECK(own.gradient_norm > 0.2);
  }
  CHECK(tied.parameters().size() == 2);
  CHECK(shared.parameters().size() == 2);
  const auto own = tied.parameters(), theirs = shared.parameters();
  CHECK(at::allclose(named(own, "tok.weight"), named(theirs, "weight"), 1e-5,
                     1e-6));
  CHECK_FALSE(at::allclose(named(own, "tok.weight"), first_values(0.1), 1e-2));
  CHECK(
    at::equal(named(tied.holders(), "head.weight"), named(own, "tok.weight")));
}

TEST_CASE("a missing gradient counts as zeros, and none is none") {
  tensor_list like{at::zeros({3}), at::zeros({3})};
  at::Tensor first, second = at::full({3}, 2.0);
  sum_tied({{&first, &second}, like});
  CHECK(at::equal(first, at::full({3}, 2.0)));
  CHECK(at::equal(second, first));
  CHECK_FALSE(first.is_alias_of(second));
  at::Tensor none_a, none_b;
  sum_tied({{&none_a, &none_b}, like});
  CHECK_FALSE(none_a.defined());
}
