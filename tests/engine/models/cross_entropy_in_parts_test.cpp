#include "troupe/engine/models/layers/cross_entropy_in_parts.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sum_of_losses.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;

namespace {

struct sample {
  at::Tensor x = at::randn({2, 7, 6}).requires_grad_();
  at::Tensor weight = at::randn({11, 6}).requires_grad_();
  at::Tensor targets = at::randint(0, 11, {2, 7}, at::kLong);
};

/// Computes it in parts and at once, with the gradients of three times the
/// loss.
void compare(const sample& original, std::int64_t positions, double tolerance) {
  const auto copy = [](const at::Tensor& from) {
    return from.detach().clone().requires_grad_();
  };
  const auto x = copy(original.x), weight = copy(original.weight);
  const auto term =
    cross_entropy_in_parts({{x, weight}}, original.targets, positions);
  (3 * term.value).backward();
  const auto y = copy(original.x), other = copy(original.weight);
  const auto whole = cross_entropy_loss()({at::linear(y, other)},
                                          {{}, {original.targets}, {}, 0})
                       .at(0);
  (3 * whole.value).backward();
  const auto near = [&](const at::Tensor& a, const at::Tensor& b) {
    return at::allclose(a.to(at::kFloat), b.to(at::kFloat), tolerance,
                        tolerance);
  };
  CHECK(count_of(term) == count_of(whole));
  CHECK(near(term.value, whole.value));
  CHECK(near(x.grad(), y.grad()));
  CHECK(near(weight.grad(), other.grad()));
}

}  // namespace

TEST_CASE("a loss in parts is that of all logits") {
  const sample all;
  compare(all, GENERATE(1, 3, 7, 14, 99), 1e-5);
}

TEST_CASE("ignored targets have no part in a loss in parts") {
  sample some;
  some.targets.select(1, 2).fill_(-100);
  compare(some, 4, 1e-5);
  some.targets.fill_(-100);
  const auto term =
    cross_entropy_in_parts({{some.x, some.weight}}, some.targets, 4);
  CHECK(term.value.item<double>() == 0);
  CHECK(count_of(term) == 0);
  term.value.backward();
  CHECK(some.x.grad().equal(at::zeros_like(some.x)));
}

TEST_CASE("a loss in parts of 16-bit values is near that of all logits") {
  sample small;
  small.x = small.x.detach().to(at::kBFloat16);
  small.weight = small.weight.detach().to(at::kBFloat16);
  compare(small, 4, 2e-2);
}

TEST_CASE("frozen weights get no gradient of a loss in parts") {
  const sample original;
  const auto weight = original.weight.detach();
  cross_entropy_in_parts({{original.x, weight}}, original.targets, 4)
    .value.backward();
  CHECK_FALSE(weight.grad().defined());
  CHECK(original.x.grad().defined());
}

namespace {

/// With an untied head; for `mixtral` with experts, whose router has a loss.
decoder_options decoder_of(const std::string& type) {
  model_config config(R"({"vocab_size": 11, "hidden_size": 8,
    "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 2, "max_position_embeddings": 16,
    "num_experts_per_tok": 2, "output_router_logits": true,
    "model_type": ")" + type
                        + "\"}",
                      "config.json");
  if (type == "llama")
    config.ignore({"num_experts_per_tok", "output_router_logits"});
  auto options = read_decoder(config);
  options.choices.router_loss = true;
  options.choices.lora = {.rank = 2, .modules = "*"};
  options.choices.loss_positions = 3;
  return options;
}

struct loss_and_gradients {
  double loss;
  parameter_list gradients;
};

/// Trains with nonzero adapters, by the head's own losses or from its logits.
loss_and_gradients loss_of(const decoder_options& options,
                           const microbatch_data& data, bool in_parts) {
  const auto layers = decoder(options, fresh_parameters(options, 1));
  std::vector<std::shared_ptr<stage_module>> modules;
  tensor_list before, values = data.inputs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    modules.push_back(make_layer(layers, i));
    const at::NoGradGuard no_grad;
    for (const auto& [name, value] : parameters_of(layers[i].name, *modules[i]))
      if (name.ends_with("lora_B.weight"))
        at::Tensor(value).copy_(
          0.1 * at::arange(value.numel()).sin().view_as(value));
  }
  for (const auto& module : modules)
    before = std::exchange(values, module->forward(values));
  auto terms = modules.back()->losses(before, data).value();
  if (!in_parts)
    terms.at(0) = cross_entropy_loss()(values, data).at(0);
  const auto loss = sum_of_losses(terms);
  loss.backward();
  loss_and_gradients result{loss.item<double>(), {}};
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, value] : parameters_of(layers[i].name, *modules[i]))
      if (value.requires_grad())
        result.gradients.emplace_back(name, value.grad());
  return result;
}

}  // namespace

TEST_CASE("a loss in parts has the adapter of the head") {
  const auto options = decoder_of(GENERATE("llama", "mixtral"));
  const auto ids = at::arange(14, at::kLong).view({2, 7});
  const microbatch_data data{{ids % 11}, {ids * 3 % 11}, {}, 14};
  const auto parts = loss_of(options, data, true);
  const auto whole = loss_of(options, data, false);
  CHECK(std::abs(parts.loss - whole.loss) < 1e-5);
  REQUIRE(parts.gradients.size() == whole.gradients.size());
  for (std::size_t i = 0; i < parts.gradients.size(); ++i) {
    const auto& [name, gradient] = parts.gradients[i];
    INFO(name);
    REQUIRE(gradient.defined());
    const auto& expected = whole.gradients[i].second;
    const auto tolerance = 1e-4 * expected.abs().max().item<double>();
    CHECK(at::allclose(gradient, expected, 0, tolerance));
  }
  CHECK(parts.gradients.back().first == "lm_head.lora_B.weight");
}
