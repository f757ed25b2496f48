#include "troupe/engine/events/statistics.hpp"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/var.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <limits>

#include "troupe/base/error.hpp"
#include "troupe/engine/events/statistics_kernels.hpp"

using namespace troupe;
using Catch::Matchers::WithinRel;

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

double item(const at::Tensor& tensor) {
  return tensor.item().toDouble();
}

std::int64_t number_of(const at::Tensor& mask) {
  return mask.sum().item<std::int64_t>();
}

/// The number of finite values other than 0 that become infinite (or 0) as
/// `type`.
std::int64_t turned(const at::Tensor& x, at::ScalarType type, bool infinite) {
  const auto rounded = x.to(type).to(at::kDouble);
  const auto lost = infinite ? at::isinf(rounded) : rounded == 0;
  return number_of(at::isfinite(x) & (x != 0) & lost);
}

void check_counts(const tensor_statistics& actual, const at::Tensor& x) {
  CHECK(actual.count == x.numel());
  CHECK(actual.nans == number_of(at::isnan(x)));
  CHECK(actual.infs == number_of(at::isinf(x)));
  CHECK(actual.zeros == number_of(x == 0));
  CHECK(actual.fp16_overflows == turned(x, at::kHalf, true));
  CHECK(actual.fp16_underflows == turned(x, at::kHalf, false));
  CHECK(actual.bf16_overflows == turned(x, at::kBFloat16, true));
  CHECK(actual.bf16_underflows == turned(x, at::kBFloat16, false));
}

double variance_of(const at::Tensor& x) {
  return x.numel() < 2 ? 0 : item(at::var(x));
}

double root_mean_square(const at::Tensor& x) {
  return x.numel() ? item(x.norm()) / std::sqrt(x.numel()) : 0;
}

void check_instances(const tensor_statistics& actual, const at::Tensor& x) {
  const auto rows = x.dim() == 0 ? x.reshape({1, 1}) : x;
  double means = 0, variances = 0, magnitude = 0;
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    const auto finite = rows[i].masked_select(at::isfinite(rows[i]));
    means += finite.numel() ? item(finite.mean()) : 0;
    magnitude += root_mean_square(finite);
    variances += variance_of(finite);
  }
  CHECK(actual.instances == rows.size(0));
  CHECK(std::abs(actual.instance_mean_sum - means) <= 1e-7 * magnitude);
  CHECK_THAT(actual.instance_variance_sum, WithinRel(variances, 1e-5));
}

/// Compares with LibTorch's results in double.
void check_against_torch(const at::Tensor& tensor) {
  const auto actual = measure(tensor);
  const auto x = tensor.to(at::kDouble);
  const auto finite = x.masked_select(at::isfinite(x));
  check_counts(actual, x);
  check_instances(actual, x);
  if (finite.numel() == 0)
    return;
  const auto magnitudes = finite.abs();
  CHECK(actual.finite() == finite.numel());
  CHECK(actual.max_abs == item(magnitudes.max()));
  CHECK(actual.min_abs == item(magnitudes.min()));
  CHECK(std::abs(actual.mean - item(finite.mean()))
        <= 1e-7 * root_mean_square(finite));
  CHECK_THAT(actual.variance(), WithinRel(variance_of(finite), 1e-5));
  CHECK_THAT(actual.l2(), WithinRel(item(finite.norm()), 1e-6));
}

at::Tensor sprinkled(at::Tensor x) {
  for (const auto value : {not_a_number, infinity, -infinity, 0.0, -0.0, 1e5,
                           -1e-9, 3.4e38, 1e-44})
    x = x.masked_fill(at::rand_like(x, at::kDouble) < 0.02, value);
  return x;
}

/// The fp32 numbers around a number, by their bits, of both signs.
tensor_statistics extremes_of(const tensor_statistics& all) {
  tensor_statistics some;
  some.count = all.count;
  some.nans = all.nans;
  some.infs = all.infs;
  some.max_abs = all.max_abs;
  some.min_abs = all.min_abs;
  some.instances = all.instances;
  return some;
}

at::Tensor around(std::int32_t bits) {
  std::vector<float> values;
  for (std::int32_t u = std::max(bits - 3, 0); u <= bits + 3; ++u) {
    values.push_back(std::bit_cast<float>(u));
    values.push_back(-values.back());
  }
  return at::tensor(values);
}

}  // namespace

TEST_CASE("statistics are LibTorch's, for every dtype and shape") {
  at::manual_seed(1);
  const auto x = at::randn({3, 5, 1000}) * 3 + 1;
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16}) {
    INFO(c10::toString(type));
    check_against_torch(x.to(type));
    check_against_torch(sprinkled(x).to(type));
    check_against_torch(x[0][0][0].to(type));
    for (const auto width : {1, 2, 31, 32, 33, 63, 64, 65, 255, 4096, 4133})
      check_against_torch(sprinkled(at::randn({3, width})).to(type));
    check_against_torch(sprinkled(at::randn({3000, 5})).to(type));
    check_against_torch(at::randn({9000}).to(type));
  }
}

TEST_CASE("a mean whose square overflows is a mean like any other") {
  const auto actual = measure(at::full({3, 100}, 1e200, at::kDouble));
  CHECK(actual.mean == 1e200);
  CHECK(actual.squares == 0);
  CHECK(actual.instance_variance_sum == 0);
}

TEST_CASE("integers and bool count as their values") {
  at::manual_seed(2);
  for (const auto type :
       {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kBool})
    check_against_torch(at::randint(0, 3, {4, 70}).to(type));
  CHECK(measure(at::full({2}, (1L << 40) + 1, at::kLong)).max_abs
        == static_cast<double>((1L << 40) + 1));
}

TEST_CASE("what would overflow or vanish is what LibTorch's conversion loses") {
  for (const auto bits :
       {0x477ff000, 0x477fe000, 0x33000000, 0x33800000, 0x7f7f8000, 0x7f7f0000,
        0x7f800000, 0x00008000, 0x00010000, 0x00800000, 0x00000000})
    for (const auto type : {at::kFloat, at::kDouble}) {
      const auto values = around(bits).to(type);
      check_counts(measure(values), values);
    }
}

TEST_CASE("extreme values keep the variance right") {
  at::manual_seed(3);
  const auto x = at::randn({2, 5000});
  for (const auto scale : {1e30, 1e37, 1e18, 1e-12, 1e-18, 1e-30, 1e-38, 1e-43})
    check_against_torch(x * scale);
  for (const auto scale : {1e140, 1e-140})
    check_against_torch(x.to(at::kDouble) * scale);
  auto outlier = x.clone();
  outlier[0][0] = 1e9;
  check_against_torch(outlier);
  check_against_torch(x * 1e-4 + 1000);
  check_against_torch(x * 1e-20 + 1e-14);
  check_against_torch(at::cat({x * 1e-30, x, x * 1e30}));
  check_against_torch(at::full({7}, std::numeric_limits<float>::max()));
  const auto constant = measure(at::full({3, 5000}, 0.1));
  CHECK_THAT(constant.mean, WithinRel(static_cast<double>(0.1F), 1e-12));
  CHECK(constant.variance() < 1e-20);
}

TEST_CASE("empty, single and wholly undefined values") {
  const auto empty = measure(at::empty({4, 0}), true);
  CHECK(empty.count == 0);
  CHECK(empty.instances == 0);
  CHECK(empty.variance() == 0);
  CHECK(empty.l2() == 0);
  const auto one = measure(at::full({}, -3.0));
  CHECK(one.instances == 1);
  CHECK(one.mean == -3);
  CHECK(one.variance() == 0);
  CHECK(one.instance_mean_sum == -3);
  CHECK(one.l2() == 3);
  const auto none = measure(at::full({2, 3}, not_a_number));
  CHECK(none.nans == 6);
  CHECK(none.finite() == 0);
  CHECK(none.max_abs == 0);
  CHECK(none.min_abs == 0);
  CHECK(none.mean == 0);
  CHECK(none.variance() == 0);
}

TEST_CASE("strides do not matter") {
  at::manual_seed(4);
  const auto x = at::randn({6, 7, 80});
  check_against_torch(x.permute({0, 2, 1}));
  check_against_torch(x.permute({2, 0, 1}));
  check_against_torch(x.slice(2, 0, 80, 3));
  check_against_torch(x[0][0].expand({5, 80}));
  check_against_torch(at::full({1}, 2.5).expand({3, 4}));
  check_against_torch(x.slice(0, 1, 2).permute({0, 2, 1}));
  auto leaf = at::randn({3, 4});
  leaf.requires_grad_(true);
  check_against_torch(leaf.t().detach());
  CHECK(measure(leaf.t()).count == 12);
}

TEST_CASE("other tensors are refused") {
  CHECK_THROWS_AS(measure(at::Tensor{}), error);
  CHECK_THROWS_AS(measure(at::zeros({2}, at::kComplexFloat)), error);
  CHECK_THROWS_AS(measure(at::zeros({2}).to_sparse()), error);
}

TEST_CASE("the histogram counts by power of two") {
  for (const auto type : {at::kFloat, at::kDouble}) {
    const auto x =
      at::tensor({1.0, -1.5, 2.0, 0.75, 0.0, not_a_number, infinity, 0x1p-126,
                  0x1p-149, 0x1.8p-148, 0x1.fp127, 1.0},
                 at::kDouble)
        .to(type);
    const auto bins = *measure(x, true).histogram;
    log2_histogram expected{};
    expected[150] = 3;  // 1, -1.5 and 1
    expected[151] = expected[149] = expected[24] = expected[1] = expected[2] =
      1;
    expected[277] = 1;
    CHECK(bins == expected);
  }
  const auto far = measure(at::tensor({1e300, 1e-300}, at::kDouble), true);
  CHECK(far.histogram->front() == 1);
  CHECK(far.histogram->back() == 1);
  CHECK_FALSE(measure(at::zeros({3})).histogram);
}

TEST_CASE("merged statistics equal those of the joined tensor") {
  at::manual_seed(5);
  const auto a = sprinkled(at::randn({3, 700}) + 4), b = at::randn({5, 700});
  const auto joined = measure(at::cat({a, b}), true);
  const auto merged = merge(measure(a, true), measure(b, true));
  check_counts(merged, at::cat({a, b}).to(at::kDouble));
  CHECK(merged.instances == 8);
  CHECK(merged.max_abs == joined.max_abs);
  CHECK(merged.min_abs == joined.min_abs);
  CHECK(merged.histogram == joined.histogram);
  CHECK_THAT(merged.mean, WithinRel(joined.mean, 1e-9));
  CHECK_THAT(merged.variance(), WithinRel(joined.variance(), 1e-9));
  CHECK_THAT(merged.instance_variance_sum,
             WithinRel(joined.instance_variance_sum, 1e-9));
  CHECK_THAT(merge(tensor_statistics{}, joined).variance(),
             WithinRel(joined.variance(), 1e-12));
  CHECK(merge(joined, {}).min_abs == joined.min_abs);
  CHECK(merge({}, joined).histogram == joined.histogram);
  CHECK_FALSE(merge(measure(a), joined).histogram);
}

TEST_CASE("scaled statistics equal those of the scaled tensor") {
  at::manual_seed(6);
  const auto x = at::randn({4, 300}) + 2;
  const auto by_hand = measure(x * -0.25), from = measure(x);
  const auto actual = scaled(from, -0.25);
  CHECK(actual.max_abs == by_hand.max_abs);
  CHECK(actual.min_abs == by_hand.min_abs);
  CHECK_THAT(actual.mean, WithinRel(by_hand.mean, 1e-12));
  CHECK_THAT(actual.squares, WithinRel(by_hand.squares, 1e-12));
  CHECK_THAT(actual.instance_mean_sum,
             WithinRel(by_hand.instance_mean_sum, 1e-12));
  CHECK_THAT(actual.instance_variance_sum,
             WithinRel(by_hand.instance_variance_sum, 1e-12));
  CHECK(actual.count == from.count);
}

TEST_CASE("extremes alone equal those of full statistics") {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& values :
       {at::zeros({3, 50}), at::full({4}, nan), at::full({2, 0}, 1.0F),
        at::randn({5, 7}).t(), at::arange(9), at::scalar_tensor(-3.0),
        at::randn({70, 65}).slice(1, 0, 64), at::full({3}, 1e-42F)})
    CHECK(measure_extremes(values) == extremes_of(measure(values)));
  CHECK_THROWS_AS(measure_extremes(at::Tensor{}), error);
}

TEST_CASE("all instruction sets give the same bits") {
  at::manual_seed(7);
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
    for (const auto scale : {1.0, 1e-30, 1e30})
      for (const auto width : {1, 7, 40, 99, 1000, 5001}) {
        const auto x = at::randn({3, width}) * scale;
        for (const auto& values : {x.to(type), sprinkled(x).to(type)}) {
          const auto plain = measure(values, true, plain_kernels);
          for (const auto* kernels : usable_kernels()) {
            INFO(kernels->instruction_set << describe(values));
            CHECK(measure(values, true, *kernels) == plain);
            CHECK(measure_extremes(values, *kernels) == extremes_of(plain));
          }
        }
      }
}
