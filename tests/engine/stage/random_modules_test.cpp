// Random modules: a split backward equals the full one.
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/tanh.h>
#include <catch2/catch_test_macros.hpp>

#include <random>

#include "driven_stage.hpp"
#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;
using troupe::testing::driven_stage;

namespace {

constexpr std::int64_t size = 6;

at::Tensor noise(std::uint64_t seed) {
  return at::randn({size, size}, at::make_generator<at::CPUGeneratorImpl>(seed),
                   at::kFloat);
}

/// Each forward draws the same ops on the same tensors: inputs, parameters and
/// results.
struct random_module final : stage_module {
  explicit random_module(std::uint32_t seed) : seed_(seed) {
    std::mt19937 random(seed);
    for (std::uint64_t i = 0; i < 3; ++i) {
      const auto name = std::to_string(i);
      layers_.push_back(register_module(
        "layer" + name, std::make_shared<linear_layer>(size, size)));
      layers_.back()->fill(0.4, at::make_generator<at::CPUGeneratorImpl>(i));
      weights_.push_back(register_parameter("weight" + name, noise(20 + i)));
      if (random() % 5 == 0)
        weights_.back().requires_grad_(false);
      if (random() % 5 == 0)
        layers_.back()->weight.requires_grad_(false);
    }
  }

  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    std::mt19937 random(seed_);
    auto values = inputs;
    values.insert(values.end(), weights_.begin(), weights_.end());
    for (auto count = 3 + random() % 14; count > 0; --count)
      values.push_back(next(values, random));
    tensor_list outputs{values.back()};
    for (auto count = random() % 3; count > 0; --count)
      outputs.push_back(values[random() % values.size()]);
    return outputs;
  }

 private:
  at::Tensor next(const tensor_list& values, std::mt19937& random) {
    // Prefers later values, so that graphs are deep.
    const auto any = [&] {
      const auto back =
        std::min(random() % values.size(), random() % values.size());
      return values[values.size() - 1 - back];
    };
    const auto x = any(), y = any();
    if (random() % 3 == 0)
      layers_[0]->forward(x);  // which nothing reads
    switch (const auto which = random() % 3; random() % 14) {
      case 0:
      case 1:
      case 2:
        return layers_[which]->forward(x);
      case 3:
      case 4:
        return at::linear(x, weights_[which]);
      case 5:
        return x + y;
      case 6:
        return at::tanh(x) * weights_[which];
      case 7:
        return at::layer_norm(x, {size}, weights_[which][0]);
      case 8:
        return at::cat({x.narrow(1, 0, 2), y.narrow(1, 2, 4)}, 1);
      case 9:
        return at::sin(x).add_(y).narrow(0, 0, 1).expand({size, size});
      case 10:
        return x.t().softmax(0);
      case 11:
        return x.detach() + weights_[which].view({size, size});
      case 12: {
        auto changed = x.clone();
        changed.select(0, 2).copy_(weights_[which][1]);
        return changed;
      }
      default:
        return at::linear(x, layers_[which]->weight);
    }
  }

  std::uint32_t seed_;
  std::vector<std::shared_ptr<linear_layer>> layers_;
  tensor_list weights_;
};

/// The gradients of inputs by microbatch, then those of parameters. `split`:
/// none for full backwards.
tensor_list trained_gradients(std::uint32_t seed,
                              std::optional<weight_split> split) {
  const auto make = [seed] { return std::make_shared<random_module>(seed); };
  const model layers{{"before", make}, {"layer", make}, {"behind", make}};
  const auto module =
    std::make_shared<layer_sequence>(layers, layer_range{1, 2});
  module_stage_options options;
  options.index = 1;
  options.numerics.optimizer = sgd{};
  options.numerics.backward_split = split.value_or(weight_split::automatic);
  options.numerics.recompute = seed % 4 == 0;
  module_compute stage(module, options);
  driven_stage ops(stage);
  step_settings settings;
  settings.splits_backward = split.has_value();
  stage.begin_step(settings);
  tensor_list gradients;
  constexpr std::int32_t microbatches = 3;
  for (std::int32_t k = 0; k < microbatches; ++k) {
    const auto outputs = ops.forward(
      {k, 0}, {{noise(std::uint64_t(k)), noise(5 + std::uint64_t(k))}})[0];
    tensor_list of_outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      of_outputs.push_back(noise(10 + i));
    auto of_inputs =
      ops.backward(split ? op_kind::input_backward : op_kind::backward, {k, 0},
                   {of_outputs})[0];
    gradients.insert(gradients.end(), of_inputs.begin(), of_inputs.end());
  }
  for (std::int32_t k = 0; split && k < microbatches; ++k)
    ops.backward(op_kind::weight_backward, {k, 0});
  for (const auto& [name, parameter] : module->parameters_by_name())
    gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace

TEST_CASE("a split backward is the full one for modules drawn at random") {
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    const auto whole = trained_gradients(seed, std::nullopt);
    for (const auto split : {weight_split::layers, weight_split::graph}) {
      const auto parts = trained_gradients(seed, split);
      REQUIRE(whole.size() == parts.size());
      for (std::size_t i = 0; i < whole.size(); ++i) {
        CAPTURE(seed, i, split == weight_split::graph);
        REQUIRE(whole[i].defined() == parts[i].defined());
        if (whole[i].defined())
          CHECK(at::equal(whole[i], parts[i]));
      }
    }
  }
}
