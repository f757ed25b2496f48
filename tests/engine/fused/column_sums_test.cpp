#include "troupe/engine/fused/column_sums.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "troupe/tests/engine/fused/all_kernels.hpp"

using namespace troupe;

namespace {

at::Tensor column_sums(const at::Tensor& rows) {
  at::Tensor sum;
  fused::add_column_sums(sum, rows, at::kFloat);
  return sum;
}

at::Tensor exact_sums(const at::Tensor& rows) {
  return rows.to(at::kDouble).reshape({-1, rows.size(-1)}).sum(0);
}

}  // namespace

TEST_CASE("sums of columns, set and added") {
  with_all_kernels([] {
    for (const std::int64_t rows : {1, 7, 8, 64, 65, 130, 5000})
      for (const std::int64_t columns : {1, 5, 64, 100}) {
        CAPTURE(rows, columns);
        const auto matrix = random_of({rows, columns}, 1);
        auto sum = column_sums(matrix);
        CHECK(relative_error(sum, exact_sums(matrix)) < 1e-6);
        const auto first = sum.clone();
        fused::add_column_sums(sum, matrix, at::kFloat);
        CHECK(relative_error(sum, first.to(at::kDouble) * 2) < 1e-6);
      }
  });
}

TEST_CASE("sums of columns of views, other dtypes and no rows") {
  with_all_kernels([] {
    const auto wide = random_of({40, 3, 50}, 2);
    for (const auto& view : {wide, wide.select(1, 1), wide.transpose(0, 2),
                             wide.narrow(2, 3, 20), wide.select(1, 0).t()})
      CHECK(relative_error(column_sums(view), exact_sums(view)) < 1e-6);
    const auto rounded = wide.to(at::kBFloat16);
    CHECK(relative_error(column_sums(rounded), exact_sums(rounded)) < 1e-6);
    at::Tensor sum;
    fused::add_column_sums(sum, rounded, at::kBFloat16);
    CHECK(sum.scalar_type() == at::kBFloat16);
    CHECK(relative_error(sum, exact_sums(rounded)) < 8e-3);
    CHECK(column_sums(random_of({0, 6}, 3)).count_nonzero().item<int>() == 0);
    auto in_fp64 = at::zeros({3}, at::kDouble);
    fused::add_column_sums(in_fp64, wide.select(2, 0), at::kDouble);
    CHECK(relative_error(in_fp64, exact_sums(wide.select(2, 0))) < 1e-6);
  });
}

TEST_CASE("sums of columns have the same bits for any number of threads") {
  with_all_kernels([] {
    if (!fused::chosen_layers())
      return;
    const auto matrix = random_of({3000, 70}, 4);
    const auto [one, three] = with_threads([&] { return column_sums(matrix); });
    CHECK(one.equal(three));
  });
}

TEST_CASE("sums of columns keep what is not finite") {
  with_all_kernels([] {
    auto matrix = random_of({70, 40}, 5);
    matrix[68][3] = std::numeric_limits<float>::infinity();
    matrix[1][39] = std::numeric_limits<float>::quiet_NaN();
    CHECK(is_finite_as(column_sums(matrix), exact_sums(matrix)));
  });
}
