#include "troupe/engine/models/decoders/decoder_parts.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/relu6.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/square.h>
#include <ATen/ops/tanh.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <optional>
#include <ranges>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/fused/activation.hpp"
#include "troupe/engine/models/layers/residual_branches.hpp"

namespace troupe {

namespace {

using function = at::Tensor (*)(const at::Tensor&);

at::Tensor exact_gelu(const at::Tensor& x) {
  return fused::activated(x, fused::activation::gelu);
}

at::Tensor gelu_by_tanh(const at::Tensor& x) {
  return fused::activated(x, fused::activation::gelu_tanh);
}

at::Tensor silu(const at::Tensor& x) {
  return fused::activated(x, fused::activation::silu);
}

/// Hugging Face's names (`hidden_act`).
constexpr std::array<std::pair<const char*, function>, 20> functions{{
  {"gelu", exact_gelu},
  {"gelu_new", gelu_by_tanh},
  {"gelu_fast", gelu_by_tanh},
  {"gelu_pytorch_tanh", gelu_by_tanh},
  {"quick_gelu",
   [](const at::Tensor& x) { return x * at::sigmoid(1.702 * x); }},
  {"relu", [](const at::Tensor& x) { return at::relu(x); }},
  {"relu2", [](const at::Tensor& x) { return at::square(at::relu(x)); }},
  {"relu6", [](const at::Tensor& x) { return at::relu6(x); }},
  {"sigmoid", [](const at::Tensor& x) { return at::sigmoid(x); }},
  {"silu", silu},
  {"swish", silu},
  {"tanh", [](const at::Tensor& x) { return at::tanh(x); }},
  {"mish", [](const at::Tensor& x) { return at::mish(x); }},
  {"linear", [](const at::Tensor& x) { return x; }},
  {"leaky_relu", [](const at::Tensor& x) { return at::leaky_relu(x); }},
  {"hardswish", [](const at::Tensor& x) { return at::hardswish(x); }},
  {"gelu_python", exact_gelu},
  {"gelu_accurate", gelu_by_tanh},
  {"gelu_10",
   [](const at::Tensor& x) { return at::clamp(exact_gelu(x), -10, 10); }},
  {"laplace",
   [](const at::Tensor& x) {
     return 0.5 * (1 + at::erf((x - 0.707107) / (0.282095 * std::sqrt(2.0))));
   }},
}};

function function_of(const std::string& name) {
  for (const auto& [function_name, what] : functions)
    if (name == function_name)
      return what;
  fail(error_code::invalid_argument,
       "there is no activation function '{}'; the names are {}",
       printable(name), fmt::join(functions | std::views::keys, ", "));
}

/// For `mlp_branch`.
std::optional<fused::activation> fused_activation(function of) {
  return of == exact_gelu     ? std::optional(fused::activation::gelu)
         : of == gelu_by_tanh ? std::optional(fused::activation::gelu_tanh)
         : of == silu         ? std::optional(fused::activation::silu)
                              : std::nullopt;
}

struct activation_layer final : torch::nn::Module {
  explicit activation_layer(function what) : run(what) {}
  at::Tensor forward(const at::Tensor& x) const { return run(x); }

  function run;
};

struct mlp_layer final : decoder_mlp {
  mlp_layer(const decoder_options& o, const at::TensorOptions& kind)
    : act(register_module(
      "act", std::make_shared<activation_layer>(function_of(o.activation)))) {
    const linear_options options{kind, o.mlp_bias, o.transposed};
    const auto add = [&](const std::string& name, std::int64_t inputs,
                         std::int64_t outputs) {
      return register_module(
        name, std::make_shared<linear_layer>(inputs, outputs, options));
    };
    if (o.gated)
      gate = add(o.names.gate, o.width, o.inner);
    up = add(o.names.up, o.width, o.inner);
    down = add(o.names.down, o.inner, o.width);
  }

  at::Tensor forward(const at::Tensor& x) override {
    return observe(
      down, gate ? gated(observe(gate, x), x) : observe(act, observe(up, x)));
  }

  /// act(g) * up(x)
  at::Tensor gated(const at::Tensor& g, const at::Tensor& x) {
    const auto which = fused_activation(act->run);
    if (!which) {
      const auto y = observe(act, g);
      return y * observe(up, x);
    }
    auto* const watching = watching_observer();
    if (watching)
      show(*watching, g, *which);
    const auto u = observe(up, x);
    const auto y = fused::gated(g, u, *which);
    if (watching && g.requires_grad())
      show_gradient(*watching, y, u);
    return y;
  }
  /// What `act` would give, of which one kernel makes the product.
  void show(observer& to, const at::Tensor& g, fused::activation which) const {
    const at::NoGradGuard no_grad;
    to.called(
      *act, {{g, tensor_content::tensor, 0}},
      {{to.reads_output(*act) ? fused::activated(g, which) : at::Tensor()}});
  }
  /// y: the product with u.
  void show_gradient(observer& to, const at::Tensor& y,
                     const at::Tensor& u) const {
    if (y.requires_grad() && to.reads_gradient(*act))
      y.register_hook(
        [&to, layer = act.get(), u = u.detach()](const at::Tensor& gradient) {
          to.gradient(*layer, gradient * u);
        });
  }

  at::Tensor branch(const at::Tensor& x, const norm_layer& norm) override {
    const auto which = fused_activation(act->run);
    return which ? mlp_branch(x, norm,
                              {*this, *act, gate.get(), *up, *down, *which})
                 : at::Tensor();
  }

  std::shared_ptr<activation_layer> act;
  std::shared_ptr<linear_layer> gate, up, down;
};

}  // namespace

void require_activation(const std::string& name) {
  function_of(name);
}

std::shared_ptr<norm_layer> make_norm(const decoder_options& options,
                                      std::int64_t width,
                                      const at::TensorOptions& kind) {
  return std::make_shared<norm_layer>(
    width, options.epsilon, kind,
    options.norm == decoder_options::norm_kind::layer);
}

std::shared_ptr<decoder_mlp> make_dense_mlp(const decoder_options& options,
                                            const at::TensorOptions& kind) {
  return std::make_shared<mlp_layer>(options, kind);
}

}  // namespace troupe
