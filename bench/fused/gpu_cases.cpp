#include "gpu_cases.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/fused/activation_operators.hpp"
#include "troupe/engine/fused/column_sums.hpp"
#include "troupe/engine/fused/cross_entropy.hpp"
#include "troupe/engine/fused/norm_operators.hpp"
#include "troupe/engine/fused/rotary.hpp"

namespace troupe {

namespace {

struct model_shape {
  const char* name;
  std::int64_t rows, positions, width, inner, heads, head_size, classes;
  bool is_llama;  // RMSNorm and SwiGLU, instead of LayerNorm and GEGLU
};

constexpr model_shape large[]{
  {"GPT", 8192, 1024, 1024, 4096, 16, 64, 50304, false},
  {"Llama", 16384, 2048, 2048, 5632, 32, 64, 32000, true}};
constexpr model_shape tiny[]{{"GPT", 32, 8, 64, 128, 2, 16, 64, false},
                             {"Llama", 32, 16, 32, 96, 2, 16, 40, true}};

/// The cases of a model's shape in a dtype.
class cases_of {
 public:
  cases_of(const model_shape& s, at::ScalarType type, at::Device device,
           const std::function<void(const gpu_case&)>& visit)
    : s_(s), type_(type), device_(device), visit_(visit) {}

  void norms() const;
  void gated() const;
  void rotation() const;
  void column_sums() const;
  void losses() const;
  void products() const;

 private:
  at::Tensor random(at::IntArrayRef sizes) const {
    return at::randn(sizes, at::TensorOptions(device_)).to(type_);
  }
  std::int64_t bytes_of_one() const { return type_ == at::kFloat ? 4 : 2; }

  /// `elements`: of this dtype that are read or written, besides `others`.
  void visit(const std::string& name, at::IntArrayRef shape,
             std::int64_t elements, std::function<void()> theirs,
             std::function<void()> ours, std::int64_t others = 0) const {
    visit_({name, fmt::format("{}, {}", s_.name, fmt::join(shape, " x ")),
            type_ == at::kFloat ? "fp32" : "bf16",
            static_cast<double>(elements * bytes_of_one() + others),
            std::move(theirs), std::move(ours)});
  }

  const model_shape& s_;
  const at::ScalarType type_;
  const at::Device device_;
  const std::function<void(const gpu_case&)>& visit_;
};

at::Tensor leaf(const at::Tensor& x) {
  return x.detach().requires_grad_();
}

/// Runs a backward of a graph that is kept.
std::function<void()> backward_of(const at::Tensor& y,
                                  const std::vector<at::Tensor>& leaves,
                                  const at::Tensor& gradient) {
  return [=] {
    torch::autograd::grad({y}, leaves, {gradient}, /*retain_graph=*/true);
  };
}

void cases_of::norms() const {
  const auto shape = {s_.rows, s_.width};
  const auto x = random(shape), weight = random({s_.width}),
             gradient = random(shape), added = random(shape);
  const auto bias = s_.is_llama ? at::Tensor() : random({s_.width});
  const auto by_libtorch =
    [has_bias = bias.defined()](const std::vector<at::Tensor>& all) {
      return has_bias ? at::layer_norm(all[0], all[1].sizes(), all[1], all[2])
                      : at::rms_norm(all[0], all[1].sizes(), all[1], 1e-5);
    };
  std::vector<at::Tensor> inputs{x, weight}, leaves{leaf(x), leaf(weight)};
  if (bias.defined()) {
    inputs.push_back(bias);
    leaves.push_back(leaf(bias));
  }
  const std::string name = s_.is_llama ? "RMS norm" : "layer norm";
  visit(
    name, shape, 2 * x.numel(), [=] { by_libtorch(inputs); },
    [=] { fused::normalize(x, weight, bias, 1e-5); });
  const auto of = fused::normalize(x, weight, bias, 1e-5);
  const auto theirs = [=, y = by_libtorch(leaves)] {
    torch::autograd::grad({y}, leaves, {gradient}, /*retain_graph=*/true)[0]
      .add_(added);
  };
  visit(name + ", backward, added", shape, 4 * x.numel(), theirs, [=] {
    fused::normalize_backward(gradient, x, of, weight, bias.defined(), added);
  });
}

void cases_of::gated() const {
  const auto shape = {s_.rows, s_.inner};
  const auto x = random(shape), factor = random(shape),
             gradient = random(shape);
  const auto which =
    s_.is_llama ? fused::activation::silu : fused::activation::gelu;
  const auto by_libtorch = [is_silu = s_.is_llama](const at::Tensor& a,
                                                   const at::Tensor& b) {
    return (is_silu ? at::silu(a) : at::gelu(a)) * b;
  };
  const std::string name = s_.is_llama ? "SwiGLU" : "GEGLU";
  visit(
    name, shape, 3 * x.numel(), [=] { by_libtorch(x, factor); },
    [=] { fused::activate_gated(x, factor, which); });
  const std::vector leaves{leaf(x), leaf(factor)};
  visit(name + ", backward", shape, 5 * x.numel(),
        backward_of(by_libtorch(leaves[0], leaves[1]), leaves, gradient),
        [=] { fused::activate_gated_backward(gradient, x, factor, which); });
}

void cases_of::rotation() const {
  const auto pairs = s_.head_size / 2;
  const auto shape = {s_.rows / s_.positions, s_.positions, s_.heads,
                      s_.head_size};
  const auto x = random(shape);
  const auto angles =
    at::randn({s_.positions, pairs}, at::TensorOptions(device_));
  const auto cosines = angles.cos(), sines = angles.sin();
  const auto c = cosines.to(type_).unsqueeze(1),
             s = sines.to(type_).unsqueeze(1);
  const auto theirs = [=] {
    const auto a = x.narrow(3, 0, pairs), b = x.narrow(3, pairs, pairs);
    return at::cat({a * c - b * s, b * c + a * s}, 3);
  };
  visit("rotation", shape, 2 * x.numel(), theirs,
        [=] { fused::rotate(x, cosines, sines); });
}

void cases_of::column_sums() const {
  const auto shape = {s_.rows, s_.width};
  const auto rows = random(shape);
  const auto sum = at::zeros({s_.width}, at::TensorOptions(device_));
  visit(
    "sum of rows, added", shape, rows.numel(),
    [=] { sum.add_(rows.sum(0, false, at::kFloat)); },
    [=] {
      auto to = sum;
      fused::add_column_sums(to, rows, at::kFloat);
    });
}

void cases_of::losses() const {
  constexpr std::int64_t ignored = -100;
  const auto shape = {s_.rows, s_.classes};
  const auto logits = random(shape);
  const at::TensorOptions here(device_);
  const auto targets =
    at::randint(0, s_.classes, {s_.rows}, here.dtype(at::kLong));
  const auto by_libtorch = [=](const at::Tensor& x) {
    return at::cross_entropy_loss(x.to(at::kFloat), targets, {},
                                  at::Reduction::Sum, ignored);
  };
  visit(
    "cross entropy", shape, logits.numel(), [=] { by_libtorch(logits); },
    [=] { fused::cross_entropy(logits, targets, ignored); });
  const auto norms = fused::cross_entropy(logits, targets, ignored).norms;
  const auto scale = at::ones({}, here);
  const auto x = leaf(logits);
  const auto overwritten = logits.clone();
  visit("cross entropy, gradient", shape, 2 * logits.numel(),
        backward_of(by_libtorch(x), {x}, scale), [=] {
          fused::cross_entropy_gradient_(overwritten, targets, norms, scale,
                                         ignored);
        });
}

void cases_of::products() const {
  const auto gradient = random({s_.rows, s_.inner}),
             x = random({s_.rows, s_.width});
  const auto sum = at::zeros({s_.inner, s_.width}, at::TensorOptions(device_));
  visit(
    "product, added to fp32", {s_.inner, s_.rows, s_.width},
    gradient.numel() + x.numel(), [=] { sum.add_(gradient.t().mm(x)); },
    [=] {
      auto to = sum;
      add_matrix_product(to, gradient.t(), x, at::kFloat);
    },
    8 * sum.numel());
}

}  // namespace

void for_each_gpu_case(at::Device device, bool small,
                       const std::function<void(const gpu_case&)>& visit) {
  for (const auto& s : small ? tiny : large)
    for (const auto type : {at::kBFloat16, at::kFloat}) {
      const cases_of all(s, type, device, visit);
      all.norms();
      all.gated();
      all.rotation();
      all.column_sums();
      all.losses();
      all.products();
    }
}

}  // namespace troupe
