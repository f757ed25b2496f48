#include "troupe/engine/fused/norm.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <vector>

#include "troupe/engine/fused/norm_operators.hpp"
#include "troupe/tests/engine/fused/all_kernels.hpp"
#include "troupe/tests/engine/libtorch_warnings.hpp"

using namespace troupe;

namespace {

struct norm_inputs {
  at::Tensor x, weight, bias, gradient;  // bias: undefined for RMSNorm

  norm_inputs to(at::ScalarType type) const {
    return {x.to(type), weight.to(type), bias.defined() ? bias.to(type) : bias,
            gradient.to(type)};
  }
};

norm_inputs norm_of(std::int64_t rows, std::int64_t width, bool has_bias) {
  return {random_of({rows, width}, 1), random_of({width}, 2),
          has_bias ? random_of({width}, 3) : at::Tensor(),
          random_of({rows, width}, 4)};
}

/// The output, and the gradients of x, weight and, if there is one, bias.
using norm_results = std::vector<at::Tensor>;

template <class Norm>
norm_results graph_of(const norm_inputs& all, const Norm& norm) {
  auto x = all.x.detach().requires_grad_(),
       weight = all.weight.detach().requires_grad_();
  std::vector<at::Tensor> leaves{x, weight};
  at::Tensor bias;
  if (all.bias.defined())
    leaves.push_back(bias = all.bias.detach().requires_grad_());
  const auto output = norm(x, weight, bias);
  auto results = torch::autograd::grad({output}, leaves, {all.gradient});
  results.insert(results.begin(), output.detach());
  return results;
}

norm_results norm_by_troupe(const norm_inputs& all, double epsilon = 1e-5) {
  return graph_of(all, [&](auto& x, auto& weight, auto& bias) {
    return bias.defined() ? fused::layer_norm(x, weight, bias, epsilon)
                          : fused::rms_norm(x, weight, epsilon);
  });
}

norm_results exact_norm(const norm_inputs& all, double epsilon = 1e-5) {
  return graph_of(all.to(at::kDouble), [&](auto& x, auto& weight, auto& bias) {
    return bias.defined()
             ? at::layer_norm(x, weight.sizes(), weight, bias, epsilon)
             : at::rms_norm(x, weight.sizes(), weight, epsilon);
  });
}

void check_near(const norm_results& found, const norm_results& exact,
                double bound) {
  REQUIRE(found.size() == exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(found[i], exact[i]) < bound);
  }
}

}  // namespace

TEST_CASE("norms are LibTorch's in fp64 within units of the last place") {
  with_all_kernels([] {
    for (const auto& [rows, width] :
         std::initializer_list<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {3, 2}, {3, 7}, {33, 64}, {200, 96}, {5, 1000}})
      for (const bool has_bias : {true, false}) {
        CAPTURE(rows, width, has_bias);
        const auto all = norm_of(rows, width, has_bias);
        auto found = norm_by_troupe(all), exact = exact_norm(all);
        if (width < 3) {  // the gradients are differences of equal numbers
          found.resize(1);
          exact.resize(1);
        }
        check_near(found, exact, 8e-7);
      }
  });
}

TEST_CASE("norms of values far from zero, and of outliers") {
  with_all_kernels([] {
    auto far = norm_of(20, 256, true);
    far.x = far.x + 1000;
    // An exact mean is rounded to fp32, which is all that the gradients have.
    CHECK(relative_error(norm_by_troupe(far)[0], exact_norm(far)[0]) < 4e-5);
    auto outliers = norm_of(20, 256, true);
    outliers.x.narrow(1, 0, 4).fill_(1000);
    check_near(norm_by_troupe(outliers), exact_norm(outliers), 3e-5);
    if (fused::has_norm_kernel(far.x, far.weight, far.bias)) {
      CHECK(relative_error(norm_by_troupe(far)[0], exact_norm(far)[0]) < 8e-7);
      check_near(norm_by_troupe(outliers), exact_norm(outliers), 8e-7);
    }
  });
}

TEST_CASE("norms of huge and tiny values") {
  with_kernels([&] {
    for (const double size : {1e-30, 1e-18, 1e18, 1e30, 1e37})
      for (const bool has_bias : {true, false})
        for (const double epsilon : {0.0, 1e-5}) {
          CAPTURE(size, has_bias, epsilon);
          auto all = norm_of(6, 40, has_bias);
          all.x = all.x * size;
          check_near(norm_by_troupe(all, epsilon), exact_norm(all, epsilon),
                     8e-7);
        }
  });
}

TEST_CASE("norms are finite where LibTorch's are") {
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  with_all_kernels([&] {
    for (const float value : {infinity, -infinity, nan})
      for (const bool has_bias : {true, false})
        for (const std::int64_t at : {0, 37, 40}) {
          CAPTURE(value, has_bias, at);
          auto all = norm_of(6, 41, has_bias);
          all.x[2][at] = value;
          all.gradient[4][at] = value;
          const auto found = norm_by_troupe(all), exact = exact_norm(all);
          for (std::size_t i = 0; i < exact.size(); ++i) {
            CAPTURE(i);
            // Which of x's gradients are NaN depends on the order of sums.
            CHECK((i == 1 ? found[i].isfinite().equal(exact[i].isfinite())
                          : is_finite_as(found[i], exact[i])));
          }
        }
  });
}

TEST_CASE("a row's norm depends on that row alone") {
  with_all_kernels([] {
    for (const bool has_bias : {true, false}) {
      const auto all = norm_of(70, 1003, has_bias);
      const auto [one, three] =
        with_threads([&] { return norm_by_troupe(all); });
      if (!fused::has_norm_kernel(all.x, all.weight, all.bias))
        continue;
      for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(one[i].equal(three[i]));
      for (const std::int64_t row : {0, 13, 69}) {
        const auto alone =
          norm_by_troupe({all.x.narrow(0, row, 1).clone(), all.weight, all.bias,
                          all.gradient.narrow(0, row, 1).clone()});
        CHECK(alone[0].equal(one[0].narrow(0, row, 1)));
        CHECK(alone[1].equal(one[1].narrow(0, row, 1)));
      }
    }
  });
}

TEST_CASE("a norm's backward adds another gradient") {
  with_all_kernels([] {
    for (const bool has_bias : {true, false}) {
      const auto all = norm_of(9, 50, has_bias);
      const auto made = fused::normalize(all.x, all.weight, all.bias, 1e-5);
      CHECK(made.mean.defined() == has_bias);
      const auto added = random_of({9, 50}, 5);
      const auto gradients = [&](const at::Tensor& more) {
        return fused::normalize_backward(all.gradient, all.x, made, all.weight,
                                         has_bias, more);
      };
      const auto with = gradients(added), without = gradients({});
      CHECK(relative_error(with.x, (without.x + added).to(at::kDouble)) < 4e-7);
      CHECK(with.weight.equal(without.weight));
      CHECK(with.bias.defined() == has_bias);
    }
  });
}

TEST_CASE("norms in bf16, also with weights in fp32") {
  with_all_kernels([] {
    for (const bool has_bias : {true, false})
      for (const auto type : {at::kBFloat16, at::kFloat}) {
        auto all = norm_of(70, 72, has_bias).to(at::kBFloat16);
        all.weight = all.weight.to(type);
        if (has_bias)
          all.bias = all.bias.to(type);
        const testing::libtorch_warnings warnings;
        const auto found = norm_by_troupe(all);
        CHECK(warnings.text() == "");
        CHECK(found[0].scalar_type() == at::kBFloat16);
        CHECK(found[1].scalar_type() == at::kBFloat16);
        CHECK(found[2].scalar_type() == type);
        // LibTorch's sums are in bf16.
        const bool has_kernel = fused::has_norm_kernel(all.x, all.weight, {});
        check_near(found, exact_norm(all), has_kernel ? 5e-3 : 2e-2);
      }
  });
}

TEST_CASE("norms under autocast have LibTorch's dtypes") {
  with_all_kernels([] {
    const auto all = norm_of(3, 8, true);
    at::autocast::set_autocast_enabled(at::kCPU, true);
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto x = all.x.to(type);
      const auto found = fused::layer_norm(x, all.weight, all.bias);
      const auto theirs = at::layer_norm(x, {8}, all.weight, all.bias);
      CHECK(found.scalar_type() == theirs.scalar_type());
      CHECK(relative_error(found, theirs.to(at::kDouble)) < 8e-3);
      CHECK(fused::rms_norm(x, all.weight).scalar_type()
            == at::rms_norm(x, {8}, all.weight).scalar_type());
    }
    at::autocast::set_autocast_enabled(at::kCPU, false);
  });
}

TEST_CASE("norms of views, of no rows, and in fp64") {
  with_all_kernels([] {
    for (const bool has_bias : {true, false}) {
      const auto all = norm_of(12, 20, has_bias);
      const auto transposed =
        norm_inputs{all.x.t().contiguous().t(), all.weight, all.bias,
                    all.gradient.view({12, 20})};
      const auto cubic = norm_inputs{all.x.view({3, 4, 20}), all.weight,
                                     all.bias, all.gradient.view({3, 4, 20})};
      const auto plain = norm_by_troupe(all);
      check_near(norm_by_troupe(transposed), exact_norm(all), 8e-7);
      CHECK(norm_by_troupe(cubic)[0].view({12, 20}).equal(plain[0]));
      CHECK(norm_by_troupe(cubic)[2].equal(plain[2]));
      const auto none = norm_by_troupe(norm_of(0, 20, has_bias));
      CHECK(none[0].sizes() == at::IntArrayRef{0, 20});
      CHECK(none[2].count_nonzero().item<std::int64_t>() == 0);
      check_near(norm_by_troupe(all.to(at::kDouble)), exact_norm(all), 1e-13);
    }
  });
}

TEST_CASE("norms make a graph only if one is wanted") {
  const auto all = norm_of(4, 8, true);
  CHECK_FALSE(fused::layer_norm(all.x, all.weight, all.bias).requires_grad());
  const auto weight = all.weight.detach().requires_grad_();
  CHECK(fused::rms_norm(all.x, weight).requires_grad());
  {
    const at::NoGradGuard no_grad;
    CHECK_FALSE(fused::rms_norm(all.x, weight).requires_grad());
  }
  if (fused::chosen_layers())
    CHECK(c10::Dispatcher::singleton().findSchema({"troupe::normalize", ""}));
}
