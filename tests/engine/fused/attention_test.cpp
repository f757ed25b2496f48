#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "troupe/engine/fused/attention.hpp"
#include "troupe/engine/fused/attention_kernels.hpp"

using namespace troupe;

namespace {

struct shape {
  std::int64_t rows, queries, keys, heads, key_heads, size;
  bool causal = true;
};

const std::vector<shape> shapes{
  {1, 1, 1, 1, 1, 1},        {2, 37, 37, 3, 3, 20},
  {1, 128, 128, 2, 2, 32},   {2, 33, 33, 6, 2, 16},
  {1, 5, 19, 2, 1, 8},       {1, 1, 70, 2, 2, 64},
  {1, 150, 150, 1, 1, 80},   {2, 65, 65, 2, 2, 32, false},
  {1, 9, 3, 2, 2, 5, false}, {1, 257, 300, 1, 1, 33},
};

at::Tensor values(at::IntArrayRef sizes, std::uint64_t seed) {
  return at::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(seed));
}

struct results {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

std::vector<at::Tensor> inputs_of(const shape& s, std::uint64_t seed = 1) {
  return {values({s.rows, s.queries, s.heads, s.size}, seed),
          values({s.rows, s.keys, s.key_heads, s.size}, seed + 1),
          values({s.rows, s.keys, s.key_heads, s.size}, seed + 2),
          values({s.rows, s.queries, s.heads, s.size}, seed + 3)};
}

/// Output and gradients of a function of the first three, for the gradient that
/// is the fourth.
template <class Function>
results run(std::vector<at::Tensor> inputs, at::ScalarType type,
            const Function& function) {
  for (auto& each : inputs)
    each = each.detach().to(type);
  const auto of_output = inputs.back();
  inputs.pop_back();
  for (auto& each : inputs)
    each.requires_grad_();
  const auto output = function(inputs);
  return {output.detach(),
          torch::autograd::grad({output}, inputs, {of_output})};
}

/// The formula, by LibTorch's operators.
at::Tensor formula(const std::vector<at::Tensor>& all, bool causal) {
  const auto heads = [&](const at::Tensor& x) {
    return x.repeat_interleave(all[0].size(2) / x.size(2), 2).transpose(1, 2);
  };
  const auto q = all[0].transpose(1, 2), k = heads(all[1]), v = heads(all[2]);
  auto scores =
    q.matmul(k.transpose(-2, -1)) / std::sqrt(static_cast<double>(q.size(-1)));
  if (causal) {
    const auto sees =
      at::ones({q.size(2), k.size(2)}, at::kBool).tril(k.size(2) - q.size(2));
    scores = scores.masked_fill(sees.logical_not(), -HUGE_VAL);
  }
  return scores.softmax(-1).matmul(v).transpose(1, 2);
}

at::Tensor fused_of(const std::vector<at::Tensor>& all, bool causal) {
  return fused::attention(all[0], all[1], all[2], {.causal = causal});
}

/// The largest difference over the largest value.
double error_of(const at::Tensor& found, const at::Tensor& exact) {
  REQUIRE(found.sizes() == exact.sizes());
  const auto largest = exact.abs().max().item<double>();
  return (found.to(at::kDouble) - exact).abs().max().item<double>()
         / std::max(largest, 1e-3);
}

void require_close(const results& found, const results& exact, double bound) {
  CHECK(error_of(found.output, exact.output) < bound);
  REQUIRE(found.gradients.size() == exact.gradients.size());
  for (std::size_t i = 0; i < exact.gradients.size(); ++i)
    CHECK(error_of(found.gradients[i], exact.gradients[i]) < 2 * bound);
}

fused::head_rows<float> head(const at::Tensor& x) {
  return {x.data_ptr<float>(), x.stride(1), 0};
}

fused::head_rows<const float> read(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(1), 0};
}

/// The one head of these by one instruction set.
results by(const fused::attention_kernels& kernels,
           const std::vector<at::Tensor>& all, bool causal) {
  const auto &q = all[0], &k = all[1], &v = all[2], &of_output = all[3];
  const fused::attention_sizes sizes{
    1,
    q.size(1),
    k.size(1),
    q.size(3),
    static_cast<float>(1 / std::sqrt(static_cast<double>(q.size(3)))),
    causal};
  // The result must not depend on the values in scratch memory.
  const auto scratch = at::full({kernels.scratch_of(sizes)},
                                std::numeric_limits<float>::quiet_NaN());
  results made{
    at::empty(q.sizes()),
    {at::empty(q.sizes()), at::empty(k.sizes()), at::empty(v.sizes())}};
  const auto logarithms = at::empty({q.size(1)});
  kernels.fp32.forward(sizes,
                       {read(q), read(k), read(v), head(made.output),
                        logarithms.data_ptr<float>()},
                       scratch.data_ptr<float>());
  scratch.fill_(std::numeric_limits<float>::quiet_NaN());
  kernels.fp32.backward(
    sizes,
    {read(q), read(k), read(v), read(made.output), read(of_output),
     head(made.gradients[0]), head(made.gradients[1]), head(made.gradients[2]),
     logarithms.data_ptr<float>()},
    scratch.data_ptr<float>());
  return made;
}

}  // namespace

TEST_CASE("fused attention is the formula in fp64 within fp32's rounding") {
  for (const auto& s : shapes) {
    CAPTURE(s.rows, s.queries, s.keys, s.heads, s.key_heads, s.size, s.causal);
    const auto inputs = inputs_of(s);
    const auto exact = run(inputs, at::kDouble, [&](const auto& all) {
      return formula(all, s.causal);
    });
    const auto by_type = [&](at::ScalarType type) {
      return run(inputs, type,
                 [&](const auto& all) { return fused_of(all, s.causal); });
    };
    require_close(by_type(at::kFloat), exact, 1e-6);
    require_close(by_type(at::kDouble), exact, 1e-13);
    const auto* best = fused::usable_attention().back();
    fused::use_attention(nullptr);
    require_close(by_type(at::kFloat), exact, 1e-6);
    fused::use_attention(best);
    // Of the inputs as rounded, so that only the output's rounding is left.
    auto rounded = inputs;
    for (auto& each : rounded)
      each = each.to(at::kBFloat16);
    require_close(by_type(at::kBFloat16),
                  run(rounded, at::kDouble,
                      [&](const auto& all) { return formula(all, s.causal); }),
                  5e-3);
  }
}

TEST_CASE("attention of every instruction set is the formula") {
  for (const auto* kernels : fused::usable_attention())
    for (const auto& s : shapes) {
      if (s.rows * s.heads > 1 && s.heads != s.key_heads)
        continue;
      CAPTURE(kernels->name, s.queries, s.keys, s.size, s.causal);
      const auto inputs = inputs_of({1, s.queries, s.keys, 1, 1, s.size}, 7);
      require_close(
        by(*kernels, inputs, s.causal),
        run(inputs, at::kDouble,
            [&](const auto& all) { return formula(all, s.causal); }),
        1e-6);
    }
}

TEST_CASE("self-attention reads parts of a projection where they are") {
  const auto memory = values({2, 21, 4, 3, 16}, 3);  // by heads
  const auto thirds = values({2, 21, 3, 4, 16}, 4);
  const auto of_output = values({2, 21, 4, 16}, 5);
  for (const auto& projection : {thirds, memory.transpose(2, 3)}) {
    auto leaf = projection.detach().requires_grad_();
    const auto output = fused::self_attention(leaf);
    const auto gradient = torch::autograd::grad({output}, {leaf}, {of_output});
    const auto parts = projection.unbind(2);
    const auto apart =
      run({parts[0], parts[1], parts[2], of_output}, at::kFloat,
          [&](const auto& all) { return fused_of(all, true); });
    CHECK(output.equal(apart.output));
    for (int i = 0; i < 3; ++i)
      CHECK(gradient[0].select(2, i).equal(apart.gradients[i]));
    if (output.scalar_type() == at::kFloat)
      CHECK(gradient[0].strides() == projection.strides());
  }
}

TEST_CASE("attention has the same bits for any number of threads") {
  const auto inputs = inputs_of({3, 40, 40, 4, 2, 24}, 9);
  const auto made = [&] {
    return run(inputs, at::kFloat,
               [](const auto& all) { return fused_of(all, true); });
  };
  const auto threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto one = made();
  at::set_num_threads(3);
  const auto three = made();
  at::set_num_threads(threads);
  CHECK(one.output.equal(three.output));
  for (int i = 0; i < 3; ++i)
    CHECK(one.gradients[i].equal(three.gradients[i]));
}

TEST_CASE("attention of equal, huge and non-finite scores") {
  const auto v = values({1, 6, 1, 16}, 2);
  const auto equal = fused::attention(at::zeros({1, 6, 1, 16}), v, v);
  CHECK(error_of(equal.select(1, 5).to(at::kDouble), v.to(at::kDouble).mean(1))
        < 1e-6);
  // The softmax of scores that are far apart has one weight.
  const auto far = values({1, 6, 1, 16}, 3) * 1e8;
  CHECK(fused::attention(far, far, v).equal(v));
  // A NaN in a key or value that queries 4 and 5 alone read reaches both.
  auto broken = v.clone();
  broken.select(1, 4).fill_(std::numeric_limits<float>::quiet_NaN());
  const auto found = fused::attention(v, broken, v).isnan().any(-1).view({-1});
  CHECK(found[4].item<bool>());
  CHECK(found[5].item<bool>());
  CHECK_FALSE(found[3].item<bool>());
}

TEST_CASE("attention of no rows, no queries") {
  for (const auto& s : {shape{0, 4, 4, 2, 2, 8}, shape{2, 0, 4, 2, 2, 8}}) {
    const auto made = run(inputs_of(s), at::kFloat,
                          [](const auto& all) { return fused_of(all, true); });
    CHECK(made.output.numel() == 0);
    CHECK(made.gradients[1].sizes() == at::IntArrayRef{s.rows, 4, 2, 8});
    CHECK(made.gradients[1].count_nonzero().item<std::int64_t>() == 0);
  }
}

TEST_CASE("attention refuses shapes that don't match") {
  using Catch::Matchers::ContainsSubstring;
  using Catch::Matchers::MessageMatches;
  const auto x = at::zeros({1, 4, 3, 8});
  CHECK_THROWS_WITH(
    fused::attention(x, at::zeros({1, 4, 2, 8}), at::zeros({1, 4, 2, 8})),
    ContainsSubstring("of which heads is a multiple"));
  CHECK_THROWS_WITH(fused::self_attention(x),
                    ContainsSubstring("[rows, positions, 3, heads, size]"));
}

TEST_CASE("attention under autocast is that of the cast inputs") {
  const auto all = inputs_of({1, 12, 12, 2, 2, 16});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const auto found = fused_of(all, true);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  REQUIRE(found.scalar_type() == at::kBFloat16);
  auto cast = all;
  for (auto& each : cast)
    each = each.to(at::kBFloat16);
  CHECK(error_of(found, fused_of(cast, true).to(at::kDouble)) < 1e-2);
}
