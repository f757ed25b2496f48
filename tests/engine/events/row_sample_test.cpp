#include "troupe/engine/events/row_sample.hpp"

#include <ATen/Context.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <set>

using namespace troupe;
using Catch::Approx;

namespace {

constexpr int seeds = 1000;

row_estimates sampled(const at::Tensor& x, const row_plan& plan,
                      std::uint32_t seed) {
  return estimated(plan, measure_rows(x, plan.width, drawn_rows(plan, {seed})));
}

/// Values of Student's t with 8 degrees of freedom; rows have scales and means
/// of their own, and instances means.
at::Tensor uneven(std::vector<std::int64_t> sizes) {
  at::manual_seed(17);
  auto rows = sizes, instances = sizes;
  rows.back() = 1;
  std::fill(instances.begin() + 1, instances.end(), 1);
  auto chi = at::zeros(sizes);
  for (int i = 0; i < 8; ++i)
    chi += at::randn(sizes).square();
  const auto values = at::randn(sizes) / (chi / 8).sqrt();
  return values * (at::randn(rows) * 0.3).exp() + at::randn(rows) * 0.3
         + at::randn(instances) * 0.5;
}

bool holds(std::pair<double, double> interval, double value) {
  return interval.first <= value && value <= interval.second;
}

/// Checks estimates of that mean and variance over many seeds: their mean, and
/// how often intervals hold.
void check_estimates(const at::Tensor& x, const row_plan& plan, double mean,
                     double variance) {
  estimate means, variances;
  double means_hold = 0, variances_hold = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const auto found = sampled(x, plan, seed);
    means += found.mean;
    variances += found.variance;
    means_hold += holds(found.mean.interval(), mean) ? 1 : 0;
    variances_hold +=
      holds(found.variance.positive_interval(), variance) ? 1 : 0;
  }
  const auto off = [](const estimate& sum, double truth) {
    return std::abs(sum.value - seeds * truth) / std::sqrt(sum.variance);
  };
  CHECK(off(means, mean) < 3);  // standard errors
  CHECK(off(variances, variance) < 3);
  CHECK(std::abs(means_hold / seeds - 0.95) <= 0.02);
  CHECK(std::abs(variances_hold / seeds - 0.95) <= 0.02);
}

}  // namespace

TEST_CASE("intervals of means and variances hold for 95 % of seeds") {
  const auto share = GENERATE(0.1, 0.3);
  CAPTURE(share);
  SECTION("rows of each instance") {
    const auto x = uneven({4, 200, 64});
    const auto plan = planned_rows(x, true, share);
    REQUIRE(plan);
    CHECK(plan->strata == 4);
    CHECK(plan->chosen == std::lround(share * 200));
    const auto whole = measure(x);
    check_estimates(x, *plan, whole.instance_mean_sum,
                    whole.instance_variance_sum);
  }
  SECTION("rows of a parameter") {
    const auto x = uneven({1000, 40});
    const auto plan = planned_rows(x, false, share);
    REQUIRE(plan);
    CHECK(plan->strata == 1);
    const auto whole = measure(x);
    check_estimates(x, *plan, whole.mean, whole.variance());
  }
  SECTION("instances, where each has one row") {
    const auto x = uneven({1000, 40});
    const auto plan = planned_rows(x, true, share);
    REQUIRE(plan);
    CHECK(plan->rows_are_instances);
    const auto whole = measure(x);
    check_estimates(x, *plan, whole.instance_mean_sum,
                    whole.instance_variance_sum);
  }
}

TEST_CASE("of a tensor whose rows are all drawn estimates are exact") {
  const auto x = uneven({2, 20, 30});
  x[1][3][4] = NAN;
  x[1][5][0] = INFINITY;
  const auto whole = measure(x);
  const auto found = sampled(x, {2, 20, 20, 30}, 1);
  CHECK(found.count == whole.count);
  CHECK(found.read == whole.count);
  CHECK(found.max_abs == whole.max_abs);
  CHECK(found.nans.value == Approx(1));
  CHECK(found.infs.value == Approx(1));
  CHECK(found.mean.value == Approx(whole.instance_mean_sum));
  CHECK(found.variance.value == Approx(whole.instance_variance_sum));
  CHECK(found.mean.variance == 0);
  CHECK(found.variance.interval().second == found.variance.value);
}

TEST_CASE("counts of values that are not finite are of the whole tensor") {
  const auto x = uneven({600, 50});
  x.slice(0, 0, 300).slice(1, 0, 2).fill_(NAN);
  const auto plan = planned_rows(x, false, 0.1);
  REQUIRE(plan);
  estimate nans, means;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    const auto found = sampled(x, *plan, seed);
    nans += found.nans;
    means += found.mean;
    CHECK(found.infs == estimate{});
  }
  CHECK(nans.value / seeds == Approx(600).epsilon(0.02));
  CHECK(std::abs(means.value / seeds - measure(x).mean)
        < 0.1 * std::sqrt(means.variance / seeds));
  const auto nothing = sampled(at::full({600, 50}, NAN), *plan, 1);
  CHECK(nothing.nans == estimate{600 * 50});
  CHECK(nothing.mean == estimate{});
}

TEST_CASE("rows are drawn by the key alone, without repetition") {
  const row_plan plan{3, 1000, 70, 8};
  const auto rows = drawn_rows(plan, {5, 6});
  CHECK(rows == drawn_rows(plan, {5, 6}));
  CHECK(rows != drawn_rows(plan, {5, 7}));
  CHECK(std::ranges::is_sorted(rows));
  CHECK(std::set(rows.begin(), rows.end()).size() == 210);
  for (std::size_t i = 0; i < 210; ++i)
    CHECK(rows[i] / 1000 == std::int64_t(i / 70));
  // Pinned, as it must not differ between machines.
  CHECK(drawn_rows({2, 10, 3, 1}, {1, 2})
        == std::vector<std::int64_t>{0, 1, 3, 12, 16, 17});
}

TEST_CASE("each row is drawn equally often") {
  const row_plan plan{1, 50, 10, 1};
  std::vector<double> times(50);
  for (std::uint32_t seed = 0; seed < 5000; ++seed)
    for (const auto row : drawn_rows(plan, {seed}))
      ++times[static_cast<std::size_t>(row)];
  for (const auto each : times)
    CHECK(std::abs(each - 1000) < 4 * std::sqrt(1000 * 0.8));
}

TEST_CASE("what costs little, or can't be read by rows, is read whole") {
  const auto of = [](std::vector<std::int64_t> sizes, bool instances = true) {
    return planned_rows(at::zeros(sizes), instances, 0.01);
  };
  CHECK_FALSE(of({16, 1024}));
  CHECK_FALSE(of({20000}));
  CHECK_FALSE(of({20, 2000}));  // 32 rows are too many
  CHECK_FALSE(planned_rows(at::zeros({2, 400, 64}), true, 1));
  CHECK_FALSE(planned_rows(at::zeros({400, 64}, at::kLong), false, 0.01));
  CHECK_FALSE(planned_rows(at::zeros({64, 400}).t(), false, 0.01));
  CHECK_FALSE(planned_rows(at::zeros({64, 8, 60}).transpose(0, 1), true, 0.01));
  CHECK(of({2, 400, 64})->chosen == 16);
  CHECK(of({2, 4000, 64})->chosen == 40);
  CHECK(of({64, 128, 16})->chosen == 2);
  CHECK(of({4000, 64}, false)->chosen == 40);
  // 41 instances are less than two rows of each.
  CHECK(of({4096, 16, 64})->rows_are_instances);
  CHECK(of({4096, 16, 64})->chosen == 41);
}

TEST_CASE("estimates of scaled values are scaled estimates") {
  const auto x = uneven({2, 300, 40});
  const auto plan = planned_rows(x, true, 0.1);
  REQUIRE(plan);
  const auto found = scaled(sampled(x, *plan, 3), -2);
  const auto expected = sampled(x * -2, *plan, 3);
  CHECK(found.max_abs == Approx(expected.max_abs));
  CHECK(found.mean.value == Approx(expected.mean.value));
  CHECK(found.mean.interval().first == Approx(expected.mean.interval().first));
  CHECK(found.variance.positive_interval().second
        == Approx(expected.variance.positive_interval().second));
}
