// Random numbers of forwards: known values, statistics, and dependences.
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>
#include <set>

#include "../device/expected_mask.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

/// The dropout of so many ones: 1 / (1 - p) or 0.
at::Tensor mask_of(random_draws draws, double p, std::int64_t count) {
  const draws_scope scope(&draws);
  return dropout(at::ones({count}), p);
}

double share_of_ones(const at::Tensor& mask) {
  return mask.ne(0).to(at::kDouble).mean().item<double>();
}

}  // namespace

TEST_CASE("Philox gives the known answers of Random123") {
  struct answer {
    philox_block counter;
    philox_key key;
    philox_block numbers;
  };
  constexpr auto ones = std::numeric_limits<std::uint32_t>::max();
  for (const auto& [counter, key, numbers] :
       {answer{{}, {}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        answer{{ones, ones, ones, ones},
               {ones, ones},
               {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        answer{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
               {0xa4093822, 0x299f31d0},
               {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}) {
    const auto result = philox(counter, key);
    CHECK(result.x == numbers.x);
    CHECK(result.y == numbers.y);
    CHECK(result.z == numbers.z);
    CHECK(result.w == numbers.w);
  }
}

TEST_CASE("a mask's elements are the numbers of the stream's blocks") {
  const philox_stream stream{{3, 4}, 5, 6};
  constexpr std::uint32_t threshold = 1u << 30;
  for (const std::int64_t count : {1, 63, 64, 65, 1000}) {
    auto mask = at::zeros({count}, at::kByte);
    fill_mask(mask, stream, threshold);
    CHECK(mask.equal(testing::expected_mask(count, stream, threshold)));
  }
}

TEST_CASE("dropout keeps a share of 1 - p and scales it") {
  constexpr std::int64_t count = 1 << 20;
  for (const auto p : {0.01, 0.1, 0.5, 0.9}) {
    const auto mask = mask_of({.seed = 3, .step = 7}, p, count);
    const auto bound = 5 * std::sqrt(p * (1 - p) / double(count));
    CHECK(std::abs(share_of_ones(mask) - (1 - p)) < bound);
    CHECK(mask.max().item<float>() == static_cast<float>(1 / (1 - p)));
  }
  CHECK(mask_of({}, 1, 100).eq(0).all().item<bool>());
  CHECK(mask_of({}, 0, 100).eq(1).all().item<bool>());
}

TEST_CASE(
  "streams of other steps, microbatches, slices, layers and draws are "
  "uncorrelated") {
  constexpr std::int64_t count = 1 << 16;
  const random_draws place{.seed = 1, .step = 5, .microbatch = 9, .layer = 3};
  auto others = std::vector(8, place);
  others[0].seed = 2;
  others[1].step = 6;
  others[2].microbatch = 10;
  others[3].microbatch = std::int64_t{1} << 32 | 9;
  others[4].slice = 1;
  others[5].layer = 4;
  others[6].drawn = 1;
  others[7].step = 9;  // exchanged with the microbatch
  others[7].microbatch = 5;
  const auto mask = mask_of(place, 0.5, count);
  CHECK(mask_of(place, 0.5, count).equal(mask));
  for (const auto& other : others) {
    // Independent masks agree in half of their elements.
    const auto agree =
      mask.eq(mask_of(other, 0.5, count)).to(at::kDouble).mean().item<double>();
    CHECK(std::abs(agree - 0.5) < 5 * 0.5 / std::sqrt(double(count)));
  }
  // Neighbours within a stream are independent, too.
  for (const std::int64_t apart : {1, 4, 16, 64}) {
    const auto agree = mask.slice(0, apart)
                         .eq(mask.slice(0, 0, count - apart))
                         .to(at::kDouble)
                         .mean()
                         .item<double>();
    CHECK(std::abs(agree - 0.5) < 5 * 0.5 / std::sqrt(double(count - apart)));
  }
}

TEST_CASE("a dropout's gradient passes the elements that it kept") {
  random_draws draws{.seed = 5};
  const draws_scope scope(&draws);
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    auto x = at::full({33, 7}, 3, type).t().requires_grad_(true);
    draws.enter_layer(1);
    const auto y = dropout(x, 0.25);
    y.sum().backward();
    CHECK((y.to(at::kDouble) / 3).allclose(x.grad().to(at::kDouble), 1e-2, 0));
    draws.enter_layer(1);
    CHECK(dropout(at::full({7, 33}, 3), 0.25).ne(0).equal(y.ne(0)));
    CHECK(y.ne(0).any().item<bool>());
    CHECK(y.eq(0).any().item<bool>());
  }
}

TEST_CASE("dropout hides no value that is not finite") {
  random_draws draws{};
  const draws_scope scope(&draws);
  const auto x = at::full({1000}, std::numeric_limits<double>::quiet_NaN());
  CHECK(dropout(x, 0.9).isnan().all().item<bool>());
}

TEST_CASE("dropout is for forwards of training") {
  const auto x = at::ones({3});
  CHECK(dropout(x, 0.5).is_same(x));
  CHECK_THROWS_WITH(op_generator(),
                    ContainsSubstring("for forwards of training"));
  CHECK_THROWS_WITH(dropout(x, 1.5), ContainsSubstring("from 0 to 1"));
  CHECK_THROWS_WITH(dropout(x, std::nan("")), ContainsSubstring("is nan"));
  random_draws recorded{.key = at::zeros({2}, at::kInt)};
  const draws_scope scope(&recorded);
  CHECK_THROWS_WITH(op_generator(), ContainsSubstring("cuda_graphs"));
}

TEST_CASE("a recorded forward reads the keys of its step's microbatches") {
  const auto keys = draw_keys(3, 7, 40, 5);
  for (std::int64_t i = 0; i < 5; ++i) {
    random_draws draws{.seed = 3, .step = 7, .microbatch = 40 + i};
    const auto key = draws.next().key;
    CHECK(static_cast<std::uint32_t>(keys[i][0].item<int>()) == key.first);
    CHECK(static_cast<std::uint32_t>(keys[i][1].item<int>()) == key.second);
  }
}

TEST_CASE("an op's generators differ from draw to draw, and repeat") {
  random_draws draws{.seed = 5};
  const draws_scope scope(&draws);
  const auto first = at::rand({8}, op_generator());
  const auto second = at::rand({8}, op_generator());
  CHECK_FALSE(first.equal(second));
  draws.enter_layer(0);
  CHECK(at::rand({8}, op_generator()).equal(first));
}

TEST_CASE("a source's generators depend on seed and index") {
  std::set<double> first;
  for (const std::uint64_t seed : {1, 2, 3})
    for (const std::int64_t index : {0, 1, 2, 1000})
      first.insert(at::rand({1}, generator_at(seed, index)).item<double>());
  CHECK(first.size() == 12);
  CHECK(
    at::rand({4}, generator_at(1, 2)).equal(at::rand({4}, generator_at(1, 2))));
}

TEST_CASE("a watch finds draws from LibTorch's own generator") {
  const auto x = at::ones({16});
  const auto first_draw_of = [&](const auto& draw) {
    const draw_watch watch;
    draw();
    return watch.first();
  };
  CHECK(first_draw_of([&] { at::dropout(x, 0.5, true); }) != "");
  CHECK(first_draw_of([&] { at::rand({2}); }) != "");
  CHECK(first_draw_of([&] { x.clone().uniform_(); }) != "");
  CHECK(first_draw_of([&] { at::rand({2}, generator_at(1, 2)); }) == "");
  const auto heads = at::ones({1, 2, 8, 4});
  const auto attend = [&](double p) {
    at::scaled_dot_product_attention(heads, heads, heads, {}, p, true);
  };
  CHECK(first_draw_of([&] { attend(0.5); }) != "");
  CHECK(first_draw_of([&] { attend(0); }) == "");
  CHECK(first_draw_of([&] { at::dropout(x, 0.5, false); }) == "");
  CHECK(first_draw_of([&] { x.exp().matmul(x); }) == "");
  random_draws draws{};
  const draws_scope scope(&draws);
  CHECK(first_draw_of([&] { dropout(x, 0.5); }) == "");
}
