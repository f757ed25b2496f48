#include "same_statistics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

namespace troupe {
namespace {

void check_near(double actual, double expected, double scale) {
  INFO(actual << " beside " << expected);
  const auto same =
    actual == expected || (std::isnan(actual) && std::isnan(expected));
  CHECK((same || std::abs(actual - expected) <= scale));
}

}  // namespace

void check_same(const tensor_statistics& actual,
                const tensor_statistics& expected) {
  CHECK(actual.count == expected.count);
  CHECK(actual.nans == expected.nans);
  CHECK(actual.infs == expected.infs);
  CHECK(actual.zeros == expected.zeros);
  CHECK(actual.fp16_overflows == expected.fp16_overflows);
  CHECK(actual.fp16_underflows == expected.fp16_underflows);
  CHECK(actual.bf16_overflows == expected.bf16_overflows);
  CHECK(actual.bf16_underflows == expected.bf16_underflows);
  CHECK(actual.max_abs == expected.max_abs);
  CHECK(actual.min_abs == expected.min_abs);
  CHECK(actual.instances == expected.instances);
  CHECK((actual.histogram == expected.histogram));
  const auto deviation = std::sqrt(expected.variance());
  const auto instances = static_cast<double>(expected.instances);
  check_near(actual.mean, expected.mean,
             1e-7 * deviation + 1e-13 * expected.max_abs);
  check_near(actual.squares, expected.squares, 2e-6 * expected.squares);
  check_near(actual.instance_mean_sum, expected.instance_mean_sum,
             1e-7 * instances * (deviation + std::abs(expected.mean)));
  check_near(actual.instance_variance_sum, expected.instance_variance_sum,
             2e-6 * expected.instance_variance_sum);
}

}  // namespace troupe
