#include "troupe/engine/models/layers/layers.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <optional>

#include "troupe/base/fnv_hash.hpp"
#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/module/saved_tensors.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"
#include "troupe/engine/stage/random.hpp"

namespace troupe {

namespace {

using torch::autograd::variable_list;

/// x W^T + b whose backward adds the weight's gradient straight into `.grad`,
/// in parts of at most 16 MiB (like Megatron-LM's gradient accumulation
/// fusion); in a split backward, in W. A frozen weight keeps no x.
/// `transposed`: W is [inputs, outputs].
template <bool transposed>
struct accumulating_linear
  : torch::autograd::Function<accumulating_linear<transposed>> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    const auto type = compute_type(x);
    const auto input = x.to(type);
    if (weight.scalar_type() != type)
      note_casts(*context);
    if (weight.requires_grad()) {
      note_store(*context,
                 bias ? tensor_list{weight, *bias} : tensor_list{weight});
      context->save_for_backward({input, weight, bias.value_or(at::Tensor())});
    } else {
      context->save_for_backward({{}, weight, {}});
    }
    const auto factor = cast_of(weight, type);
    return linear_product(input, transposed ? factor.t() : factor,
                          bias ? cast_of(*bias, type) : bias);
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    const auto& x = saved[0];
    const auto weight = parameter_of(saved[1]);
    const auto bias = saved[2].defined() ? parameter_of(saved[2]) : saved[2];
    const auto rows = gradients[0].reshape({-1, gradients[0].size(-1)});
    at::Tensor before;
    if (context->needs_input_grad(0)) {
      const auto factor = cast_of(*context, weight, rows.scalar_type());
      auto sizes = gradients[0].sizes().vec();
      sizes.back() = weight.size(transposed ? 0 : 1);
      before =
        matrix_product(rows, transposed ? factor.t() : factor).view(sizes);
    }
    if (!weight.requires_grad())
      return {before, {}, {}};
    add_weight_gradients(*context, [=] {
      const auto inputs = x.reshape({-1, x.size(-1)});
      if (transposed)
        add_matrix_product(weight.mutable_grad(), inputs.t(), rows,
                           weight.scalar_type());
      else
        add_matrix_product(weight.mutable_grad(), rows.t(), inputs,
                           weight.scalar_type());
      if (bias.defined())
        accumulate_gradient(bias, rows.sum(0, false, bias.scalar_type()));
    });
    return {before, {}, {}};
  }
};

/// Rows of a table; its backward adds to the table's gradient.
struct accumulating_embedding
  : torch::autograd::Function<accumulating_embedding> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& ids, const at::Tensor& weight,
                            std::int64_t padding) {
    note_store(*context, {weight});
    context->save_for_backward({ids, weight});
    context->saved_data["padding"] = padding;
    return at::embedding(weight, ids);
  }

  static variable_list backward(torch::autograd::AutogradContext* context,
                                const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    add_weight_gradients(
      *context,
      [ids = saved[0], weight = parameter_of(saved[1]), rows = gradients[0],
       padding = context->saved_data["padding"].toInt()] {
        accumulate_gradient(weight, at::embedding_dense_backward(
                                      rows, ids, weight.size(0), padding,
                                      /*scale_grad_by_freq=*/false));
      });
    return {{}, {}, {}};
  }
};

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
  const bool trains_as_one =
    !bias.defined() || bias.requires_grad() == weight.requires_grad();
  // LibTorch makes the graph here; without one its operator runs, too, since a
  // forward that is computed again must have the bits of the first.
  if (!trains_as_one)
    return at::linear(x, transposed ? weight.t() : weight, bias);
  if (!at::GradMode::is_enabled()) {
    const auto type = compute_type(x);
    const auto factor = cast_of(weight, type);
    return linear_product(x.to(type), transposed ? factor.t() : factor,
                          bias.defined() ? cast_of(bias, type) : bias);
  }
  const auto optional_bias =
    bias.defined() ? std::optional(bias) : std::nullopt;
  return transposed
           ? accumulating_linear<true>::apply(x, weight, optional_bias)
           : accumulating_linear<false>::apply(x, weight, optional_bias);
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
  return bias.defined()
           ? at::layer_norm(x, weight.sizes(), weight, bias, epsilon)
           : at::rms_norm(x, weight.sizes(), weight, epsilon);
}

at::Tensor gelu_layer::forward(const at::Tensor& x) const {
  return at::gelu(x);
}

embedding_layer::embedding_layer(std::int64_t entries, std::int64_t width,
                                 const at::TensorOptions& kind,
                                 std::int64_t pad)
  : padding(pad) {
  weight = register_parameter("weight", at::empty({entries, width}, kind));
}

at::Tensor embedding_layer::forward(const at::Tensor& ids) const {
  const bool accumulates = at::GradMode::is_enabled() && weight.requires_grad();
  if (!accumulates)
    return at::embedding(weight, ids, padding);
  return accumulating_embedding::apply(ids, weight, padding);
}

}  // namespace troupe
