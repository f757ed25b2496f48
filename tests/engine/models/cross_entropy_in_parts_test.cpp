#include "troupe/engine/models/cross_entropy_in_parts.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;

namespace {

struct sample {
  at::Tensor x = at::randn({2, 7, 6}).requires_grad_();
  at::Tensor weight = at::randn({11, 6}).requires_grad_();
  at::Tensor targets = at::randint(0, 11, {2, 7}, at::kLong);
};

/// Both ways, with the gradients of three times the loss.
void compare(const sample& given, std::int64_t positions, double tolerance) {
  const auto copy = [](const at::Tensor& from) {
    return from.detach().clone().requires_grad_();
  };
  const auto x = copy(given.x), weight = copy(given.weight);
  const auto term = cross_entropy_in_parts(x, weight, given.targets, positions);
  (3 * term.value).backward();
  const auto y = copy(given.x), other = copy(given.weight);
  const auto whole =
    cross_entropy_loss()({at::linear(y, other)}, {{}, {given.targets}, {}, 0})
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
    cross_entropy_in_parts(some.x, some.weight, some.targets, 4);
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
  const sample given;
  const auto weight = given.weight.detach();
  cross_entropy_in_parts(given.x, weight, given.targets, 4).value.backward();
  CHECK_FALSE(weight.grad().defined());
  CHECK(given.x.grad().defined());
}
