// A split backward equals the full one, bit for bit, for any module.
#include "troupe/engine/stage/module/split_backward.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "driven_stage.hpp"
#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using troupe::testing::driven_stage;

namespace {

constexpr std::int64_t width = 6;

at::Tensor drawn(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return at::randn(sizes, generator, at::kFloat);
}

/// Layers of ours, custom ones, and parameters that several layers read.
struct mixed_layer final : stage_module {
  explicit mixed_layer(std::uint64_t seed)
    : first(
      register_module("first", std::make_shared<linear_layer>(width, width))),
      norm(register_module("norm", std::make_shared<norm_layer>(width))),
      weight(register_parameter("weight", drawn({width, width}, seed))),
      bias(register_parameter("bias", drawn({width}, seed + 1))),
      unused(register_parameter("unused", at::ones({2}))) {
    first->fill(0.5, at::make_generator<at::CPUGeneratorImpl>(seed + 2));
  }

  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    auto x = first->forward(inputs.at(0));
    x = at::tanh(at::linear(x, weight, bias)) + x;
    x = norm->forward(x);
    x = at::relu(at::linear(x, weight.t()));
    // Tied: by the layer's own function and by LibTorch's.
    x = at::linear(first->forward(x), first->weight, first->bias);
    return {x * bias};
  }

  std::shared_ptr<linear_layer> first;
  std::shared_ptr<norm_layer> norm;
  at::Tensor weight, bias, unused;
};

/// An embedding that is also the head, with positions.
struct tied_ends final : stage_module {
  tied_ends()
    : table(
      register_module("table", std::make_shared<embedding_layer>(8, width))),
      positions(register_module("positions",
                                std::make_shared<embedding_layer>(4, width))) {
    const at::NoGradGuard no_grad;
    table->weight.normal_(0, 1, at::make_generator<at::CPUGeneratorImpl>(3));
    positions->weight.normal_(0, 1,
                              at::make_generator<at::CPUGeneratorImpl>(4));
  }

  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    const auto ids = at::arange(4);
    const auto places = positions->forward(ids);
    // Without an input of floating point, as in a model's first stage.
    auto x = inputs.empty() || !inputs[0].is_floating_point()
               ? table->forward(ids)
               : inputs[0];
    x = at::tanh(x + places);
    return {at::linear(x, table->weight) + x.sum()};
  }

  std::shared_ptr<embedding_layer> table, positions;
};

/// The second layer's input keeps the graph of the first one alive.
struct two_linears final : stage_module {
  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    return {second->forward(first->forward(inputs.at(0)))};
  }

  std::shared_ptr<linear_layer> first = registered("first"),
                                second = registered("second");

 private:
  std::shared_ptr<linear_layer> registered(const char* name) {
    auto layer =
      register_module(name, std::make_shared<linear_layer>(width, width));
    layer->fill(0.5, at::make_generator<at::CPUGeneratorImpl>(1));
    return layer;
  }
};

using module_maker = std::function<std::shared_ptr<stage_module>()>;

std::shared_ptr<layer_sequence> middle_of(const module_maker& make) {
  const model layers{{"before", make}, {"layer", make}, {"behind", make}};
  return std::make_shared<layer_sequence>(layers, layer_range{1, 2});
}

struct outcome {
  tensor_list inputs;      // gradients, by microbatch
  tensor_list parameters;  // gradients
};

/// Runs three microbatches, whose W follow all I; the second one's backward may
/// be whole.
outcome run(const module_maker& make, bool splits, weight_split split,
            bool recompute, at::IntArrayRef sizes) {
  module_stage_options options;
  options.index = 1;
  options.numerics.optimizer = sgd{};
  options.numerics.backward_split = split;
  options.numerics.recompute = recompute;
  const auto module = middle_of(make);
  module_compute stage(module, options);
  driven_stage ops(stage);
  step_settings settings;
  settings.splits_backward = splits;
  stage.begin_step(settings);
  outcome result;
  tensor_list outputs;
  for (std::int32_t k = 0; k < 3; ++k)
    outputs.push_back(
      ops.forward({k, 0}, {{drawn(sizes, std::uint64_t(k))}})[0][0]);
  for (std::int32_t k = 0; k < 3; ++k) {
    const auto gradient = drawn(outputs[std::size_t(k)].sizes(), 10);
    result.inputs.push_back(
      ops.backward(splits ? op_kind::input_backward : op_kind::backward, {k, 0},
                   {{gradient}})[0][0]);
    if (splits)
      for (const auto& [name, parameter] : module->parameters_by_name())
        CHECK_FALSE(parameter.grad().defined());
  }
  for (std::int32_t k = 0; splits && k < 3; ++k)
    CHECK(ops.backward(op_kind::weight_backward, {k, 0}).empty());
  for (const auto& [name, parameter] : module->parameters_by_name())
    result.parameters.push_back(parameter.grad());
  return result;
}

void check_equal(const tensor_list& a, const tensor_list& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    REQUIRE(a[i].defined() == b[i].defined());
    if (a[i].defined())
      CHECK(at::equal(a[i], b[i]));
  }
}

}  // namespace

TEST_CASE("a split backward gives the bits of a full one") {
  const auto split = GENERATE(weight_split::automatic, weight_split::layers,
                              weight_split::graph);
  const auto recompute = GENERATE(false, true);
  const module_maker mixed = [] { return std::make_shared<mixed_layer>(5); };
  const module_maker tied = [] { return std::make_shared<tied_ends>(); };
  for (const auto& make : {mixed, tied}) {
    const auto whole = run(make, false, split, recompute, {4, width});
    const auto parts = run(make, true, split, recompute, {4, width});
    check_equal(whole.inputs, parts.inputs);
    check_equal(whole.parameters, parts.parameters);
    CHECK(whole.inputs.at(0).defined());
  }
}

TEST_CASE("what an input backward has deferred is freed without its W, too") {
  const auto input = drawn({4, width}, 1);
  for (const auto split : {weight_split::layers, weight_split::graph}) {
    module_stage_options options;
    options.index = 1;
    options.numerics.backward_split = split;
    module_compute stage(
      middle_of([] { return std::make_shared<two_linears>(); }), options);
    step_settings settings;
    settings.splits_backward = true;
    stage.begin_step(settings);
    {
      driven_stage ops(stage);
      ops.forward({0, 0}, {{input}});
      ops.backward(op_kind::input_backward, {0, 0}, {{drawn({4, width}, 2)}});
      CHECK(input.storage().use_count() > 1);
    }
    CHECK(input.storage().use_count() == 1);
  }
}
