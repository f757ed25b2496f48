#include "troupe/engine/fused/rotary.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "kernels_scope.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using fused::rotate;

namespace {

at::Tensor expected_of(const at::Tensor& x, const at::Tensor& angles) {
  const auto pairs = angles.size(1), size = x.size(3);
  const auto c = angles.cos().unsqueeze(1), s = angles.sin().unsqueeze(1);
  const auto a = x.narrow(3, 0, pairs), b = x.narrow(3, pairs, pairs);
  return at::cat(
    {a * c - b * s, b * c + a * s, x.narrow(3, 2 * pairs, size - 2 * pairs)},
    3);
}

/// Output and gradient, of an output's gradient.
std::pair<at::Tensor, at::Tensor> run(const at::Tensor& x,
                                      const at::Tensor& angles,
                                      const at::Tensor& gradient) {
  const auto leaf = x.detach().requires_grad_();
  const auto y = rotate(leaf, angles.cos(), angles.sin());
  y.backward(gradient);
  return {y.detach(), leaf.grad()};
}

void require_right(const at::Tensor& x, const at::Tensor& angles) {
  const auto gradient = at::randn_like(x, at::MemoryFormat::Contiguous);
  const auto leaf = x.to(at::kDouble).detach().requires_grad_();
  const auto expected = expected_of(leaf, angles.to(at::kDouble));
  expected.backward(gradient.to(at::kDouble));
  const auto near = [&](const at::Tensor& found, const at::Tensor& right) {
    const auto most = x.scalar_type() == at::kFloat ? 1e-6 : 0x1p-6;
    return (found.to(at::kDouble) - right).abs().max().item().toDouble()
           <= most * right.abs().max().item().toDouble();
  };
  for (const auto* kernels : all_layer_kernels()) {
    CAPTURE((kernels ? kernels->name : "LibTorch"), x.sizes(), angles.size(1));
    const layer_kernels_scope used(kernels);
    const auto [y, of_x] = run(x, angles, gradient);
    CHECK(y.scalar_type() == x.scalar_type());
    CHECK(near(y, expected.detach()));
    CHECK(near(of_x, leaf.grad()));
  }
}

}  // namespace

TEST_CASE("heads are rotated as by LibTorch in fp64, of any strides") {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const std::int64_t pairs : {1, 3, 16, 20}) {
      const auto x = at::randn({2, 5, 3, 4, 40}).to(type);
      const auto angles = at::randn({5, pairs}) * 10;
      require_right(x.select(2, 1), angles);
      require_right(x.select(2, 0).transpose(1, 2).contiguous().transpose(1, 2),
                    angles);
      require_right(x.select(2, 2).transpose(2, 3).contiguous().transpose(2, 3),
                    angles);
    }
}

TEST_CASE("a rotation of other types is LibTorch's") {
  require_right(at::randn({1, 3, 2, 8}).to(at::kHalf), at::randn({3, 4}));
  const auto x = at::randn({1, 3, 2, 8}, at::kDouble);
  const auto angles = at::randn({3, 4}, at::kDouble);
  CHECK(
    at::equal(rotate(x, angles.cos(), angles.sin()), expected_of(x, angles)));
}

TEST_CASE("rotations of shapes that don't match are refused") {
  const auto x = at::randn({1, 3, 2, 8});
  const auto refused = [&](const at::Tensor& input, const at::Tensor& angles) {
    CHECK_THROWS_AS(rotate(input, angles, angles), error);
  };
  refused(x, at::randn({4, 4}));
  refused(x, at::randn({3, 5}));
  refused(x, at::randn({12}));
  refused(x.squeeze(0), at::randn({3, 4}));
  CHECK_THROWS_AS(rotate(x, at::randn({3, 4}), at::randn({3, 2})), error);
}

TEST_CASE("rotating back has the bits of the gradient, without a graph") {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    CAPTURE(type);
    const auto x = at::randn({2, 5, 3, 10}).to(type).requires_grad_();
    const auto angles = at::randn({5, 4});
    const auto gradient = at::randn(x.sizes()).to(type);
    rotate(x, angles.cos(), angles.sin()).backward(gradient);
    const auto back = fused::rotate_back(gradient, angles.cos(), angles.sin());
    CHECK(at::equal(back, x.grad()));
  }
}
