#include "troupe/engine/fused/activation.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <vector>

#include "troupe/engine/fused/activation_operators.hpp"
#include "troupe/tests/engine/fused/all_kernels.hpp"

using namespace troupe;
using fused::activation;

namespace {

constexpr activation all_activations[]{activation::gelu, activation::gelu_tanh,
                                       activation::silu};

at::Tensor activated_exactly(const at::Tensor& x, activation which) {
  if (which == activation::silu)
    return at::silu(x.to(at::kDouble));
  return at::gelu(x.to(at::kDouble),
                  which == activation::gelu ? "none" : "tanh");
}

at::Tensor slope_exactly(const at::Tensor& x, activation which) {
  const auto wide = x.to(at::kDouble), ones = at::ones_like(wide);
  if (which == activation::silu)
    return at::silu_backward(ones, wide);
  return at::gelu_backward(ones, wide,
                           which == activation::gelu ? "none" : "tanh");
}

/// As `activated_exactly`, but also of the digits of values near 0.
at::Tensor small_exactly(const at::Tensor& x, activation which) {
  const auto wide = x.to(at::kDouble);
  if (which == activation::gelu)
    return wide * 0.5 * (wide * -0.70710678118654752).erfc();
  if (which == activation::gelu_tanh)
    return wide
           / ((wide * -1.5957691216057308 * (wide * wide * 0.044715 + 1)).exp()
              + 1);
  return activated_exactly(x, which);
}

std::vector<at::Tensor> gated_graph(const std::vector<at::Tensor>& all,
                                    at::ScalarType type, activation which) {
  std::vector<at::Tensor> leaves{all[0].detach().to(type).requires_grad_(),
                                 all[1].detach().to(type).requires_grad_()};
  const auto output = type == at::kDouble
                        ? activated_exactly(leaves[0], which) * leaves[1]
                        : fused::gated(leaves[0], leaves[1], which);
  auto results = torch::autograd::grad({output}, leaves, {all[2].to(type)});
  results.push_back(output.detach());
  return results;
}

}  // namespace

TEST_CASE("activations are LibTorch's in fp64 within units of the last place") {
  with_kernels([] {
    for (const auto which : all_activations) {
      CAPTURE(static_cast<int>(which));
      const auto x =
        at::cat({at::linspace(-30, 30, 9001), at::linspace(-1e-3, 1e-3, 1001)});
      const auto exact = activated_exactly(x, which);
      const auto found = fused::activate(x, which).to(at::kDouble);
      CHECK(((found - exact).abs() <= exact.abs() * 6e-7 + 6e-7)
              .all()
              .item<bool>());
      const auto slope = slope_exactly(x, which);
      const auto ours =
        fused::activate_backward(at::ones_like(x), x, which).to(at::kDouble);
      CHECK((ours - slope).abs().max().item<double>() < 6e-7);
    }
  });
}

TEST_CASE("kernels of activations keep the digits of values near 0") {
  with_kernels([&] {
    for (const auto which : all_activations) {
      CAPTURE(static_cast<int>(which));
      const auto x =
        at::cat({at::linspace(-8, 0, 8001), at::linspace(-1e-30, 1e-30, 1001)});
      const auto exact = small_exactly(x, which);
      const auto off =
        (fused::activate(x, which).to(at::kDouble) - exact).abs();
      // The argument of tanh is rounded, and its power of e is no better.
      const auto bound = which == activation::gelu_tanh ? 1e-5 : 8e-7;
      CHECK((off <= exact.abs() * bound).all().item<bool>());
    }
  });
}

TEST_CASE("activations are finite where LibTorch's are in fp64") {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto x = at::tensor({infinity, -infinity, nan, 3e38F, -3e38F, 1e20F,
                             -1e20F, 100.0F, -100.0F, -88.0F, 1e-40F, -1e-40F,
                             0.0F, -0.0F, 13.3F, -13.3F, 20.0F, -20.0F})
                   .repeat({300});  // as many as kernels take
  with_kernels([&] {
    for (const auto which : all_activations) {
      CAPTURE(static_cast<int>(which));
      CHECK(
        is_finite_as(fused::activate(x, which), activated_exactly(x, which)));
      CHECK(is_finite_as(fused::activate_backward(at::ones_like(x), x, which),
                         slope_exactly(x, which)));
    }
  });
}

TEST_CASE("an activation's bits depend on the element alone") {
  with_kernels([&] {
    for (const auto which : all_activations) {
      const auto x = random_of({6003}, 1) * 3, y = random_of({6003}, 2);
      const auto whole = fused::activate(x, which);
      const auto [of_x, of_y] = fused::activate_gated_backward(y, x, y, which);
      for (const std::int64_t first : {1, 5, 31, 998}) {
        const auto part = [&](const at::Tensor& all) {
          return all.narrow(0, first, 6003 - first).clone();
        };
        CHECK(fused::activate(part(x), which).equal(part(whole)));
        const auto gradients =
          fused::activate_gated_backward(part(y), part(x), part(y), which);
        CHECK(gradients.x.equal(part(of_x)));
        CHECK(gradients.factor.equal(part(of_y)));
      }
      const auto large = random_of({300, 301}, 3);
      const auto [one, three] = with_threads(
        [&] { return fused::activate_backward(large, large, which); });
      CHECK(one.equal(three));
    }
  });
}

TEST_CASE("gated activations are the product, with both gradients") {
  with_all_kernels([] {
    for (const auto which : all_activations) {
      CAPTURE(static_cast<int>(which));
      const std::vector<at::Tensor> all{
        random_of({9, 77}, 1), random_of({9, 77}, 2), random_of({9, 77}, 3)};
      const auto exact = gated_graph(all, at::kDouble, which);
      const auto found = gated_graph(all, at::kFloat, which);
      for (std::size_t i = 0; i < exact.size(); ++i)
        CHECK(relative_error(found[i], exact[i]) < 8e-7);
      auto rounded = all;
      for (auto& each : rounded)
        each = each.to(at::kBFloat16);
      const auto of_rounded = gated_graph(rounded, at::kDouble, which);
      const auto in_bf16 = gated_graph(rounded, at::kBFloat16, which);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        CHECK(in_bf16[i].scalar_type() == at::kBFloat16);
        CHECK(relative_error(in_bf16[i], of_rounded[i]) < 1e-2);
      }
    }
  });
}

TEST_CASE("activations in a graph") {
  with_all_kernels([] {
    for (const auto which : all_activations)
      for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble})
        // The larger one's GELU is LibTorch's.
        for (const std::int64_t rows : {3, 200}) {
          CAPTURE(static_cast<int>(which), rows);
          const auto x = random_of({rows, 110}, 4).to(type).requires_grad_();
          const auto output = fused::activated(x, which);
          const auto gradient = torch::autograd::grad(
            {output}, {x}, {at::ones_like(output).detach()});
          const auto plain = x.detach();
          // LibTorch's errors in fp32 are up to 2e-6.
          const auto bound = type == at::kBFloat16 ? 8e-3 : 4e-6;
          CHECK(output.scalar_type() == type);
          CHECK(relative_error(output.detach(), activated_exactly(plain, which))
                < bound);
          CHECK(relative_error(gradient[0], slope_exactly(plain, which))
                < bound);
          CHECK_FALSE(fused::activated(plain, which).requires_grad());
        }
    const auto view = random_of({30, 20}, 5).t();
    CHECK(relative_error(fused::activated(view, activation::silu),
                         activated_exactly(view, activation::silu))
          < 4e-6);
    CHECK(fused::activated(random_of({0, 4}, 6), activation::gelu).numel()
          == 0);
  });
}
