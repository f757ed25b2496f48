#include "troupe/engine/device/tensor.hpp"

#include <ATen/ops/complex.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace troupe;

TEST_CASE("tensors of all dtypes are told to be finite or not") {
  const auto nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    CHECK(is_finite(at::ones({2, 3}, type)));
    CHECK(is_finite(at::ones({0}, type)));
    for (const auto value : {nan, inf, -inf}) {
      auto tensor = at::ones({2, 3}, type);
      tensor[1][2] = value;
      CHECK_FALSE(is_finite(tensor));
      CHECK_FALSE(is_finite(tensor.t()));
    }
  }
  CHECK(is_finite(at::Tensor{}));
  CHECK(is_finite(at::ones({2}, at::kLong)));
  CHECK(is_finite(at::ones({2}, at::kBool)));
  CHECK_FALSE(is_finite(at::complex(at::ones({1}), at::full({1}, nan))));
  CHECK_FALSE(is_finite(at::full({2}, nan).to(at::kFloat8_e5m2)));
  CHECK(is_finite(at::ones({2}).to(at::kFloat8_e4m3fn)));
  CHECK(first_not_finite({{"a", at::ones({1})}, {"b", at::full({1}, inf)}})
        == "b");
}
