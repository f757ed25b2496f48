#include "troupe/engine/device/matrix_product.hpp"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cmath>

using namespace troupe;

namespace {

/// Below and above the size from which another library may be used, and such
/// as kernels for small products take in whole or in part.
constexpr std::array<std::array<std::int64_t, 3>, 11> shapes{{{1, 1, 1},
                                                              {3, 5, 7},
                                                              {1, 300, 9000},
                                                              {130, 257, 131},
                                                              {64, 1100, 70},
                                                              {16, 8, 8},
                                                              {32, 64, 192},
                                                              {48, 24, 40},
                                                              {8, 13, 16},
                                                              {16, 256, 48},
                                                              {256, 128, 256}}};

bool near(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && at::allclose(a, b, 1e-5, 1e-4);
}

}  // namespace

TEST_CASE("products are those of ATen, of any strides and types") {
  for (const auto& [rows, inner, columns] : shapes)
    for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
      const auto x = at::randn({rows, inner}, type);
      const auto weight = at::randn({columns, inner}, type);
      const auto turned = weight.t().contiguous().t();
      const auto bias = at::randn({columns}, type);
      const auto expected = at::linear(x, weight, bias);
      const auto close = [&](const at::Tensor& y) {
        return type == at::kBFloat16 ? at::allclose(y, expected, 0.05, 0.5)
                                     : near(y, expected);
      };
      CHECK(close(linear_product(x, weight, bias)));
      CHECK(close(linear_product(x, turned, bias)));
      CHECK(close(linear_product(x.view({1, rows, inner}), weight, bias)[0]));
      CHECK(close(linear_product(x, weight) + bias));
      CHECK(close(linear_product(x, weight, at::Tensor()) + bias));
      CHECK(close(matrix_product(x, weight.t()) + bias));
      auto sum = bias.repeat({rows, 1});
      add_matrix_product(sum, x, turned.t(), type);
      CHECK(close(sum));
      at::Tensor product;
      add_matrix_product(product, x, turned.t(), at::kDouble);
      CHECK(product.scalar_type() == at::kDouble);
      CHECK(close(product.to(type) + bias));
    }
}

TEST_CASE("a weight's gradient is added to what is there, of small sizes") {
  for (const auto& [rows, outputs, inputs] : shapes) {
    const auto gradients = at::randn({rows, outputs});
    const auto x = at::randn({rows, inputs});
    const auto product = gradients.t().to(at::kDouble).mm(x.to(at::kDouble));
    at::Tensor sum;
    for (int times = 1; times <= 2; ++times) {
      add_matrix_product(sum, gradients.t(), x, at::kFloat);
      CHECK(near(sum.to(at::kDouble), product * times));
    }
  }
}

TEST_CASE("values that are not finite show in a product") {
  for (const std::int64_t size : {7, 32}) {
    auto x = at::ones({size, size});
    x[3][5] = HUGE_VAL;
    const auto y = matrix_product(x, at::ones({size, size}));
    CHECK(y[3].isinf().all().item<bool>());
    CHECK(y.isinf().sum().item<std::int64_t>() == size);
    const auto z = linear_product(x, at::zeros({size, size}));
    CHECK(z[3].isnan().all().item<bool>());
    CHECK(z.isnan().sum().item<std::int64_t>() == size);
  }
}

TEST_CASE("a sum of products may be of any size") {
  for (const auto columns : {std::int64_t{1}, std::int64_t{5'000'000}}) {
    const auto rows = columns == 1 ? std::int64_t{5'000'000} : std::int64_t{2};
    const auto a = at::randn({rows, 3}), b = at::randn({3, columns});
    auto sum = at::ones({rows, columns});
    add_matrix_product(sum, a, b, at::kFloat);
    CHECK(near(sum, a.mm(b) + 1));
  }
}

TEST_CASE("a product has the same bits each time") {
  for (const std::int64_t rows : {150, 32}) {
    const auto x = at::randn({rows, 200}), weight = at::randn({300, 200});
    const auto first = linear_product(x, weight);
    for (int i = 0; i < 3; ++i)
      CHECK(at::equal(linear_product(x, weight), first));
  }
}

TEST_CASE("products without rows, or of other sizes, are ATen's business") {
  CHECK(linear_product(at::randn({0, 4}), at::randn({5, 4})).sizes()
        == at::IntArrayRef({0, 5}));
  CHECK(at::equal(linear_product(at::randn({3, 0}), at::randn({5, 0})),
                  at::zeros({3, 5})));
  CHECK_THROWS(linear_product(at::randn({300, 400}), at::randn({300, 300})));
  CHECK_THROWS(matrix_product(at::randn({300, 400}), at::randn({300, 300})));
}

TEST_CASE("a linear product has a gradient graph where one is wanted") {
  const auto x = at::randn({150, 200});
  const auto weight = at::randn({300, 200}).requires_grad_();
  CHECK(linear_product(x, weight).requires_grad());
  linear_product(x, weight).sum().backward();
  CHECK(near(weight.grad(), x.sum(0).expand({300, 200})));
}

TEST_CASE("products within autocast are of its type") {
  const at::NoGradGuard no_grad;
  const auto x = at::randn({150, 200}), weight = at::randn({300, 200});
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto product = linear_product(x, weight);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  CHECK(product.scalar_type() == at::kBFloat16);
}
