#include "troupe/engine/stage/update/gradient_mean.hpp"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <catch2/catch_test_macros.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;

namespace {

struct factors {
  std::int32_t replicas;
  double before, after;
};

at::Tensor bf16(std::initializer_list<float> values) {
  return at::tensor(at::ArrayRef<float>(values)).to(at::kBFloat16);
}

}  // namespace

TEST_CASE("balanced factors are those of the table of XLA's FSDP") {
  for (const auto& [replicas, before, after] :
       {factors{1, 1, 1}, factors{2, 2, 1}, factors{3, 2, 1.5},
        factors{4, 2, 2}, factors{5, 2, 2.5}, factors{6, 4, 1.5},
        factors{7, 2, 3.5}, factors{8, 4, 2}, factors{12, 4, 3},
        factors{16, 4, 4}, factors{64, 8, 8}}) {
    CAPTURE(replicas);
    const auto division = balanced_division(replicas);
    CHECK(division.before == before);
    CHECK(replicas / division.before == after);
  }
}

TEST_CASE("a mean is divided before and after the sum") {
  const tensor_list some = {at::full({2}, 3.0F), at::full({2}, 5.0F)};
  const auto copies = [&] {
    return tensor_list{some[0].clone(), some[1].clone()};
  };
  CHECK(gradient_mean(2).of(copies()).equal(at::full({2}, 4.0F)));
  CHECK(gradient_mean(2, {.before = 2, .after = 2})
          .of(copies())
          .equal(at::full({2}, 2.0F)));
  // set_gradient_divide_factors(1, 1): the sum.
  CHECK(gradient_mean(2, {.before = 1, .after = 1})
          .of(copies())
          .equal(at::full({2}, 8.0F)));
  CHECK_FALSE(gradient_mean(2).of({{}, {}}).defined());
}

TEST_CASE("the mean of one gradient is that gradient") {
  const auto one = bf16({1, 3});
  CHECK(gradient_mean(1, {.before = 3}).of({one}).is_same(one));
}

TEST_CASE("16-bit gradients are divided in their dtype, then added in fp32") {
  // 1/3 in bf16 is 0.333984375; in fp32, then rounded, the sum would differ.
  const auto mean = gradient_mean(3, {.before = 3, .after = 1})
                      .of({bf16({1}), bf16({1}), bf16({1})});
  CHECK(mean.scalar_type() == at::kFloat);
  CHECK(mean.item<float>() == 3 * 0.333984375F);
  // 257 is not representable in bf16.
  const auto in_full = gradient_mean(2).of({bf16({256}), bf16({1})});
  CHECK(in_full.item<float>() == 128.5F);
  const auto in_own =
    gradient_mean(2, {.in_fp32 = false}).of({bf16({256}), bf16({1})});
  CHECK(in_own.scalar_type() == at::kFloat);
  CHECK(in_own.item<float>() == 128.0F);
}

TEST_CASE("balanced factors keep a mean that fp16 holds within its range") {
  const auto large = at::full({1}, 40'000.0F).to(at::kHalf);
  const tensor_list four = {large.clone(), large.clone(), large.clone(),
                            large.clone()};
  auto balanced = balanced_division(4);
  balanced.in_fp32 = false;
  CHECK(gradient_mean(4, balanced).of(four).isinf().item<bool>());
  const auto half = at::full({1}, 30'000.0F).to(at::kHalf);
  const tensor_list two = {half.clone(), half.clone()};
  CHECK(gradient_mean(2, balanced).of(two).item<float>() == 30'000.0F);
  CHECK(gradient_mean(2, {.in_fp32 = false})
          .of({large.clone(), large.clone()})
          .isinf()
          .item<bool>());
}

TEST_CASE("factors that can't be meant are refused") {
  CHECK_THROWS_AS(require_legal(gradient_division{.before = 0}), error);
  CHECK_THROWS_AS(require_legal(gradient_division{.after = -1}), error);
}
