#pragma once

#include <cstdint>

namespace troupe {

/// Products of small row-major matrices in fp32, for which a library's calls
/// take longer than the arithmetic. Nothing is copied but x of `linear`.
struct small_product_kernels {
  /// y = x W^T + bias; x: [rows, inputs], W: [outputs, inputs], bias: [outputs]
  /// or null. rows: a multiple of 16; inputs and outputs: of 8. `scratch`: of
  /// rows x inputs.
  void (*linear)(const float* x, const float* weight, const float* bias,
                 float* y, std::int64_t rows, std::int64_t inputs,
                 std::int64_t outputs, float* scratch);
  /// c = a b; a: [rows, inner], b: [inner, columns]. rows: a multiple of 8,
  /// columns: of 16.
  void (*product)(const float* a, const float* b, float* c, std::int64_t rows,
                  std::int64_t inner, std::int64_t columns);
  /// sum += a^T b; a: [inner, rows], b: [inner, columns]. Multiples as above.
  void (*add_transposed)(const float* a, const float* b, float* sum,
                         std::int64_t rows, std::int64_t inner,
                         std::int64_t columns);
};

/// Null on a machine that has none.
const small_product_kernels* small_products();

}  // namespace troupe
