#pragma once

#include <utility>

#include "troupe/engine/device/small_product_kernels.hpp"
#include "troupe/engine/device/vector_code.hpp"

namespace troupe {

/// The code of small_product_kernels with vectors of that many bytes.
template <int Bytes>
class small_product_code : vector_code<Bytes> {
  using base = vector_code<Bytes>;
  using size = typename base::size;
  using values = typename base::values;
  using eight = typename vector_of<float, 32>::type;
  using base::lanes;
  using base::multiply;
  using base::panel;
  using base::store;
  using base::tile;

  /// Transposes a block of 8 rows and 8 columns in place.
  static void transpose(eight (&rows)[8]) {
    eight pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
      pairs[i] = __builtin_shufflevector(rows[i], rows[i + 1], 0, 8, 2, 10, 4,
                                         12, 6, 14);
      pairs[i + 1] = __builtin_shufflevector(rows[i], rows[i + 1], 1, 9, 3, 11,
                                             5, 13, 7, 15);
    }
    for (int half = 0; half < 8; half += 4)
      for (int i = half; i < half + 2; ++i) {
        fours[i] = __builtin_shufflevector(pairs[i], pairs[i + 2], 0, 1, 8, 9,
                                           4, 5, 12, 13);
        fours[i + 2] = __builtin_shufflevector(pairs[i], pairs[i + 2], 2, 3, 10,
                                               11, 6, 7, 14, 15);
      }
    for (int i = 0; i < 4; ++i) {
      rows[i] = __builtin_shufflevector(fours[i], fours[i + 4], 0, 1, 2, 3, 8,
                                        9, 10, 11);
      rows[i + 4] = __builtin_shufflevector(fours[i], fours[i + 4], 4, 5, 6, 7,
                                            12, 13, 14, 15);
    }
  }

  /// [rows, columns] to [columns, rows], multiples of 8; row i begins at
  /// from + i * step.
  static void transpose(const float* from, size step, size rows, size columns,
                        float* to, size to_step) {
    for (size i = 0; i < rows; i += 8)
      for (size j = 0; j < columns; j += 8) {
        eight part[8];
        for (int k = 0; k < 8; ++k)
          __builtin_memcpy(&part[k], from + (i + k) * step + j, sizeof part[k]);
        transpose(part);
        for (int k = 0; k < 8; ++k)
          __builtin_memcpy(to + (j + k) * to_step + i, &part[k],
                           sizeof part[k]);
      }
  }

  /// Eight outputs of some rows of x, whose transposed begins at `columns`, in
  /// vectors of rows.
  template <int Vectors>
  static void eight_outputs(const float* columns, size rows,
                            const float* weight, const float* bias, float* y,
                            size inputs, size outputs) {
    constexpr auto of_tile = std::make_integer_sequence<int, tile>();
    float sums[8 * panel];
    for (size i = 0; i < 8; ++i)
      for (size v = 0; v < Vectors; ++v)
        store(sums + i * panel + v * lanes, values{} + (bias ? bias[i] : 0));
    for (size i = 0; i < 8; i += tile)
      base::template multiply<Vectors>({weight + i * inputs, inputs, 1},
                                       {columns, rows}, inputs,
                                       sums + i * panel, panel, true, of_tile);
    transpose(sums, panel, 8, Vectors * lanes, y, outputs);
  }

  /// By y^T = W x^T, so that only x and y are transposed, which are small.
  static void linear(const float* x, const float* weight, const float* bias,
                     float* y, size rows, size inputs, size outputs,
                     float* scratch) {
    transpose(x, inputs, rows, inputs, scratch, rows);
    size r = 0;
    for (; r + panel <= rows; r += panel)
      for (size o = 0; o < outputs; o += 8)
        eight_outputs<2>(scratch + r, rows, weight + o * inputs,
                         bias ? bias + o : nullptr, y + r * outputs + o, inputs,
                         outputs);
    for (; r < rows; r += lanes)
      for (size o = 0; o < outputs; o += 8)
        eight_outputs<1>(scratch + r, rows, weight + o * inputs,
                         bias ? bias + o : nullptr, y + r * outputs + o, inputs,
                         outputs);
  }

  static void product(const float* a, const float* b, float* c, size rows,
                      size inner, size columns) {
    for (size i = 0; i < rows; i += tile)
      multiply({a + i * inner, inner, 1}, {b, columns}, inner, c + i * columns,
               columns, columns, false);
  }

  static void add_transposed(const float* a, const float* b, float* sum,
                             size rows, size inner, size columns) {
    for (size i = 0; i < rows; i += tile)
      multiply({a + i, 1, rows}, {b, columns}, inner, sum + i * columns,
               columns, columns, true);
  }

 public:
  static constexpr small_product_kernels kernels() {
    return {linear, product, add_transposed};
  }
};

}  // namespace troupe
