#include "troupe/engine/models/layers/layers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#include "troupe/base/fnv_hash.hpp"
#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/fused/activation.hpp"
#include "troupe/engine/fused/norm.hpp"
#include "troupe/engine/models/layers/layer_node.hpp"
#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/random.hpp"

namespace troupe {

namespace {

/// x W^T + b. A frozen weight keeps no x.
struct linear_node final : layer_node {
  at::Tensor backward(at::Tensor gradient) override {
    const auto rows = gradient.reshape({-1, gradient.size(-1)});
    auto sizes = gradient.sizes().vec();
    const auto before = layer.backward(*this, rows, wants_input());
    if (!before.defined())
      return before;
    sizes.back() = before.size(1);
    return before.view(sizes);
  }

  linear_part layer;
};

struct norm_node final : layer_node {
  at::Tensor backward(at::Tensor gradient) override {
    return layer.backward(*this, gradient);
  }

  norm_part layer;
};

struct embedding_node final : layer_node {
  at::Tensor backward(at::Tensor gradient) override {
    layer.backward(*this, gradient);
    return {};
  }

  embedding_part layer;
};

bool wants_graph(const at::Tensor& x, const tensor_list& parameters) {
  return at::GradMode::is_enabled()
         && (requires_gradient(x)
             || std::ranges::any_of(parameters, requires_gradient));
}

}  // namespace

at::Generator generator_of(const std::string& name, std::uint64_t seed) {
  fnv_hash hash;
  hash.add(name);
  hash.add(seed);
  return at::make_generator<at::CPUGeneratorImpl>(hash.value() & 0x7FFFFFFF);
}

linear_layer::linear_layer(std::int64_t inputs, std::int64_t outputs,
                           linear_options options)
  : transposed(options.transposed) {
  weight = register_parameter(
    "weight", transposed ? at::empty({inputs, outputs}, options.kind)
                         : at::empty({outputs, inputs}, options.kind));
  if (options.bias)
    bias = register_parameter("bias", at::empty({outputs}, options.kind));
}

at::Tensor linear_layer::forward(const at::Tensor& x) const {
  const auto y = base(x);
  return lora_a_ ? y + adapter_.scale * observe(lora_b_, adapted(x)) : y;
}

at::Tensor linear_layer::adapted(const at::Tensor& x) const {
  return observe(lora_a_, dropout(x, adapter_.dropout));
}

std::vector<linear_factors> linear_layer::factors(const at::Tensor& x) const {
  std::vector<linear_factors> result{{x, weight}};
  if (lora_a_)
    result.push_back({adapter_.scale * adapted(x), lora_b_->weight});
  return result;
}

void linear_layer::add_adapter(const adapter_options& options,
                               at::Generator generator) {
  const auto inputs = weight.size(transposed ? 0 : 1);
  const auto outputs = weight.size(transposed ? 1 : 0);
  const linear_options plain{weight.options().requires_grad(false), false};
  adapter_ = options;
  const auto rank = options.rank;
  lora_a_ = register_module(
    "lora_A", std::make_shared<linear_layer>(inputs, rank, plain));
  lora_b_ = register_module(
    "lora_B", std::make_shared<linear_layer>(rank, outputs, plain));
  const at::NoGradGuard no_grad;
  if (weight.is_meta())
    return;
  const auto bound = 1 / std::sqrt(static_cast<double>(inputs));
  lora_a_->weight.uniform_(-bound, bound, std::move(generator));
  lora_b_->weight.zero_();
}

at::Tensor linear_layer::base(const at::Tensor& x) const {
  // LibTorch makes the graph here; without one its operator runs, too, since a
  // forward that is computed again must have the bits of the first.
  if (!trains_as_one())
    return at::linear(x, transposed ? weight.t() : weight, bias);
  const auto all = as_parameters();
  if (!wants_graph(x, {weight}))
    return linear_forward(x.to(compute_type(x)), all);
  return with_node<linear_node>(x, {weight, bias}, [&](linear_node& node) {
    return node.layer.run(node, x, all);
  });
}

void linear_layer::fill(double deviation, at::Generator generator) {
  const at::NoGradGuard no_grad;
  weight.normal_(0.0, deviation, std::move(generator));
  if (bias.defined())
    bias.zero_();
}

norm_layer::norm_layer(std::int64_t width, double eps,
                       const at::TensorOptions& kind, bool has_mean)
  : epsilon(eps) {
  weight = register_parameter("weight", at::ones({width}, kind));
  if (has_mean)
    bias = register_parameter("bias", at::zeros({width}, kind));
}

at::Tensor norm_layer::forward(const at::Tensor& x) const {
  const auto all = as_parameters();
  if (normalizes(x, all))
    return wants_graph(x, {weight, bias}) ? with_node<norm_node>(
             x, {weight, bias},
             [&](norm_node& node) { return node.layer.run(node, x, all); })
                                          : norm_forward(x, all).output;
  return bias.defined() ? fused::layer_norm(x, weight, bias, epsilon)
                        : fused::rms_norm(x, weight, epsilon);
}

at::Tensor gelu_layer::forward(const at::Tensor& x) const {
  return fused::activated(x, fused::activation::gelu);
}

embedding_layer::embedding_layer(std::int64_t entries, std::int64_t width,
                                 const at::TensorOptions& kind,
                                 std::int64_t pad)
  : padding(pad) {
  weight = register_parameter("weight", at::empty({entries, width}, kind));
}

at::Tensor embedding_layer::forward(const at::Tensor& ids) const {
  if (!wants_graph(ids, {weight}))
    return at::embedding(weight, ids, padding);
  return with_node<embedding_node>(ids, {weight}, [&](embedding_node& node) {
    return node.layer.run(node, ids, *this);
  });
}

}  // namespace troupe
