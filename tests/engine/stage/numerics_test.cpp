#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

#include "troupe/engine/stage/gradient_norm.hpp"
#include "troupe/engine/stage/learning_rate.hpp"
#include "troupe/engine/stage/loss_scale.hpp"

using namespace troupe;
using Catch::Approx;

namespace {

at::Tensor parameter(double value, double gradient) {
  auto p = at::full({3}, value).to(at::kFloat).requires_grad_(true);
  p.mutable_grad() = at::full({3}, gradient).to(at::kFloat);
  return p;
}

float first(const at::Tensor& tensor) {
  return tensor.detach().const_data_ptr<float>()[0];
}

}  // namespace

TEST_CASE("the gradient norm is that of all gradients together") {
  const auto a = at::rand({17, 5}).requires_grad_(true);
  const auto b = at::rand({3}).requires_grad_(true);
  const auto unused = at::rand({2}).requires_grad_(true);
  a.mutable_grad() = at::rand({17, 5}) - 0.5;
  b.mutable_grad() = at::rand({3});
  const auto squares = gradient_squares({a, b, unused});
  REQUIRE(squares.size() == 3);
  CHECK(squares[2] == 0);
  const auto expected =
    std::sqrt(a.grad().to(at::kDouble).square().sum().item<double>()
              + b.grad().to(at::kDouble).square().sum().item<double>());
  CHECK(norm_of_squares(squares) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("clipping scales to the largest norm and no further") {
  CHECK(clip_factor(10, 0) == 1);
  CHECK(clip_factor(0.5, 1) == 1);
  CHECK(clip_factor(10, 1) == Approx(0.1).epsilon(1e-6));
  auto p = parameter(1, 2);
  scale_gradients({p}, 0.25);
  CHECK(first(p.grad()) == 0.5f);
}

TEST_CASE("a dynamic loss scale halves on an overflow and grows back") {
  loss_scale scale({1024, true, 2});
  scale.update(false);
  CHECK(scale.value() == 512);
  scale.update(true);
  CHECK(scale.value() == 512);
  scale.update(true);
  CHECK(scale.value() == 1024);
  loss_scale fixed({8, false, 1});
  fixed.update(false);
  CHECK(fixed.value() == 8);
}

TEST_CASE("learning rates warm up and decay") {
  using shape = learning_rate_schedule::shape;
  const learning_rate_schedule constant;
  CHECK(constant.at(1, 2.0) == 2.0);
  const learning_rate_schedule cosine{shape::cosine, 10, 110, 0.1};
  CHECK(cosine.at(1, 1.0) == Approx(0.1));
  CHECK(cosine.at(10, 1.0) == 1.0);
  CHECK(cosine.at(60, 1.0) == Approx(0.55));
  CHECK(cosine.at(110, 1.0) == Approx(0.1));
  CHECK(cosine.at(500, 1.0) == Approx(0.1));
  const learning_rate_schedule linear{shape::linear, 0, 100, 0.0};
  CHECK(linear.at(25, 4.0) == Approx(3.0));
}
