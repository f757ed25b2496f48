#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include <catch2/catch_test_macros.hpp>

#include "host_stream.hpp"

using namespace troupe;

TEST_CASE("copies are dense, without autograd, and unshared") {
  host_stream stream;
  const auto x = at::arange(6, at::kFloat).view({2, 3}).t().requires_grad_();
  const auto there = to_device(x, stream);
  const auto [back, ready] = to_host(there, stream);
  CHECK(ready->reached());
  for (const auto& copy : {there, back}) {
    CHECK(at::equal(copy, x));
    CHECK(copy.is_contiguous());
    CHECK_FALSE(copy.requires_grad());
    CHECK(copy.data_ptr() != x.data_ptr());
  }
}
