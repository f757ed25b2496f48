#include "same_statistics.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

namespace troupe {
namespace {

void check_near(double seen, double wanted, double scale) {
  INFO(seen << " beside " << wanted);
  const auto same = seen == wanted || (std::isnan(seen) && std::isnan(wanted));
  CHECK((same || std::abs(seen - wanted) <= scale));
}

}  // namespace

void check_same(const tensor_statistics& seen,
                const tensor_statistics& wanted) {
  CHECK(seen.count == wanted.count);
  CHECK(seen.nans == wanted.nans);
  CHECK(seen.infs == wanted.infs);
  CHECK(seen.zeros == wanted.zeros);
  CHECK(seen.fp16_overflows == wanted.fp16_overflows);
  CHECK(seen.fp16_underflows == wanted.fp16_underflows);
  CHECK(seen.bf16_overflows == wanted.bf16_overflows);
  CHECK(seen.bf16_underflows == wanted.bf16_underflows);
  CHECK(seen.max_abs == wanted.max_abs);
  CHECK(seen.min_abs == wanted.min_abs);
  CHECK(seen.instances == wanted.instances);
  CHECK((seen.histogram == wanted.histogram));
  const auto deviation = std::sqrt(wanted.variance());
  const auto instances = static_cast<double>(wanted.instances);
  check_near(seen.mean, wanted.mean, 1e-7 * deviation + 1e-13 * wanted.max_abs);
  check_near(seen.squares, wanted.squares, 2e-6 * wanted.squares);
  check_near(seen.instance_mean_sum, wanted.instance_mean_sum,
             1e-7 * instances * (deviation + std::abs(wanted.mean)));
  check_near(seen.instance_variance_sum, wanted.instance_variance_sum,
             2e-6 * wanted.instance_variance_sum);
}

}  // namespace troupe
