#include "troupe/engine/fused/cross_entropy.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <limits>

#include "kernels_scope.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

constexpr std::int64_t ignored = -100;

bool is_near(const at::Tensor& found, const at::Tensor& expected, double most) {
  return (found.to(at::kDouble) - expected).abs().max().item().toDouble()
         <= most * expected.abs().max().item().toDouble();
}

void require_right_losses(const at::Tensor& logits, const at::Tensor& targets) {
  const auto wide = logits.to(at::kDouble).detach().requires_grad_();
  const auto expected =
    at::cross_entropy_loss(wide, targets, {}, at::Reduction::Sum, ignored);
  (expected * 3).backward();
  const auto unit = logits.scalar_type() == at::kBFloat16 ? 0x1p-7 : 2e-6;
  for (const auto* kernels : all_layer_kernels()) {
    CAPTURE((kernels ? kernels->name : "LibTorch"), logits.sizes());
    const layer_kernels_scope used(kernels);
    const auto losses = fused::cross_entropy(logits, targets, ignored);
    CHECK(is_near(losses.sum, expected.detach(), 2e-6));
    const auto gradient = logits.clone();
    fused::cross_entropy_gradient_(gradient, targets, losses.norms,
                                   at::full({}, 3.0F), ignored);
    CHECK(is_near(gradient, wide.grad(), unit));
  }
}

}  // namespace

TEST_CASE("cross entropy and its gradient are those of LibTorch in fp64") {
  for (const std::int64_t classes : {1, 3, 17, 64, 1000, 5003})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto targets = at::randint(0, classes, {9}, at::kLong);
      targets[2] = ignored;
      require_right_losses((at::randn({9, classes}) * 4).to(type), targets);
      require_right_losses((at::randn({9, classes}) - 60).to(type), targets);
      require_right_losses((at::randn({9, classes}) + 80).to(type), targets);
    }
}

TEST_CASE("a row's loss has the same bits wherever it is") {
  const auto logits = at::randn({64, 500}) * 3;
  const auto targets = at::randint(0, 500, {64}, at::kLong);
  const auto all = fused::cross_entropy(logits, targets, ignored);
  for (const std::int64_t row : {0, 31, 63}) {
    const auto one = fused::cross_entropy(logits.narrow(0, row, 1),
                                          targets.narrow(0, row, 1), ignored);
    CHECK(at::equal(one.norms, all.norms.narrow(0, row, 1)));
  }
}

TEST_CASE("losses of values that are not finite are not finite") {
  const auto infinity = std::numeric_limits<float>::infinity();
  for (const auto* kernels : all_layer_kernels()) {
    CAPTURE((kernels ? kernels->name : "LibTorch"));
    const layer_kernels_scope used(kernels);
    const auto loss_with = [](float value) {
      auto logits = at::randn({1, 70});
      logits[0][33] = value;
      return fused::cross_entropy(logits, at::tensor({1}, at::kLong), ignored)
        .sum.item()
        .toDouble();
    };
    CHECK(std::isnan(loss_with(NAN)));
    CHECK(!std::isfinite(loss_with(infinity)));
    CHECK(std::isfinite(loss_with(-infinity)));
  }
}

TEST_CASE("targets that are no classes, and other shapes, are refused") {
  const auto logits = at::randn({2, 8});
  const auto refused = [&](const at::Tensor& x, const at::Tensor& targets) {
    CHECK_THROWS_AS(fused::cross_entropy(x, targets, ignored), error);
  };
  refused(logits, at::tensor({1, 8}, at::kLong));
  refused(logits, at::tensor({-1, 2}, at::kLong));
  refused(logits, at::tensor({1}, at::kLong));
  refused(logits, at::tensor({1, 2}, at::kInt));
  refused(logits[0], at::tensor({1, 2}, at::kLong));
}
