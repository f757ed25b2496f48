// Modules that break the rules of docs/training.md are refused by name.
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <catch2/catch_test_macros.hpp>

#include "../says.hpp"
#include "small_modules.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

struct scale : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs[0] * weight};
  }
  at::Tensor weight = register_parameter("weight", at::full({4}, 0.5));
};

struct relu_in_place final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    auto changed = inputs[0];
    return {at::relu_(changed)};
  }
};

/// Returns more rows each time.
struct growing final : scale {
  tensor_list forward(const tensor_list& inputs) override {
    ++calls;
    return {inputs[0].repeat({calls, 1}) * weight};
  }
  std::int64_t calls = 0;
};

struct rotation final : stage_module {
  tensor_list forward(const tensor_list& inputs) override {
    return {at::abs(inputs[0] * weight)};
  }
  at::Tensor weight =
    register_parameter("weight", at::complex(at::ones({4}), at::ones({4})));
};

template <class Module>
layer layer_of(const char* name) {
  return {name, [] { return std::make_shared<Module>(); }};
}

trainer_options mean_options(std::int32_t ranks, bool recompute = false) {
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = ranks, .microbatches = 2});
  options.numerics.optimizer = sgd{.learning_rate = 0.1};
  options.numerics.loss = mean_of;
  options.numerics.recompute = recompute;
  return options;
}

}  // namespace

TEST_CASE("a layer that changes its inputs is refused wherever it is cut") {
  const model layers = {layer_of<scale>("first"),
                        layer_of<relu_in_place>("relu"),
                        layer_of<scale>("last")};
  for (const bool recompute : {false, true}) {
    auto options = mean_options(1, recompute);
    trainer run(layers, options);
    CHECK_THROWS_MATCHES(run.step(small_rows()), error,
                         says("('relu') changes its inputs in place"));
  }
  plain_options plain;
  plain.numerics = mean_options(1).numerics;
  plain_loop oracle(layers, plain);
  CHECK_THROWS_MATCHES(
    oracle.step([](std::int64_t k) { return small_rows()->at(k); }), error,
    says("('relu') changes its inputs in place"));
  // At the front of a stage its inputs are leaves, which LibTorch guards.
  trainer cut(layers, mean_options(3));
  CHECK_THROWS_MATCHES(cut.step(small_rows()), error,
                       says("in-place operation"));
}

TEST_CASE("a forward that differs when it is recomputed is refused") {
  const model layers = {layer_of<growing>("first"), layer_of<scale>("last")};
  trainer once(layers, mean_options(2));
  once.step(small_rows());
  trainer twice(layers, mean_options(2, /*recompute=*/true));
  CHECK_THROWS_MATCHES(twice.step(small_rows()), error,
                       says("was recomputed and returned (Float["));
}

TEST_CASE("a parameter that is a part of another tensor is refused") {
  struct narrow final : stage_module {
    tensor_list forward(const tensor_list& inputs) override {
      return {inputs[0] * weight.sum()};
    }
    at::Tensor weight =
      register_parameter("weight", at::ones({4, 4}).narrow(1, 0, 2));
  };
  CHECK_THROWS_MATCHES(
    trainer({layer_of<scale>("first"), layer_of<narrow>("last")},
            mean_options(2)),
    error, says("the parameter 'last.weight' have gaps between them"));
}

TEST_CASE("complex parameters are refused by name, unless they are frozen") {
  const model layers = {layer_of<scale>("first"), layer_of<rotation>("last")};
  auto options = mean_options(2);
  CHECK_THROWS_MATCHES(trainer(layers, options), error,
                       says("the parameter 'last.weight' is ComplexFloat[4]"));
  options.numerics.parameters = {{.names = "last.*", .frozen = true}};
  trainer(layers, options).step(small_rows());
}
