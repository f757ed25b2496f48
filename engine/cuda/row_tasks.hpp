#pragma once

#include <cstdint>

#include "troupe/engine/cuda/norm_arithmetic.hpp"
#include "troupe/engine/cuda/statistics_pieces.hpp"

// What the kernels for rows (row_kernels.cuh) are launched with.
namespace troupe {

/// Values of a tensor without gaps, of fp32, fp16 or bf16, that begin at a
/// multiple of four of them; null: zeros.
struct typed_values {
  void* data = nullptr;
  device_type type = device_type::fp32;
};

/// LayerNorm of rows, or RMSNorm if there are no means; for widths that
/// `cut_norm_row` takes.
struct norm_task {
  typed_values x{}, weight{}, bias{}, output{};
  float* means = nullptr;   // one per row, as the scales: 1 / deviation
  float* scales = nullptr;  // ... of the root of the mean square for RMSNorm
  std::int64_t rows = 0, width = 0;
  float epsilon = 0;
};

/// How many blocks share the rows in the backward pass, whatever the device is:
/// equal bits on all.
constexpr std::int64_t norm_parts(std::int64_t rows) {
  return smaller(rows, 512);
}

/// The gradients: of the inputs, plus `added`, and each block's part of those
/// of the weight, [norm_parts, width], followed in each part by the bias's.
struct norm_backward_task {
  typed_values gradient{}, x{}, weight{}, added{}, input_gradient{};
  const float* means = nullptr;
  const float* scales = nullptr;
  float* parts = nullptr;
  std::int64_t rows = 0, width = 0;
  bool has_bias = false;

  constexpr std::int64_t part_width() const {
    return has_bias ? 2 * width : width;
  }
};

/// Sums over the rows of each part, in fp32: [parts, width]. The width is a
/// multiple of four.
struct column_sums_task {
  typed_values values{};
  float* sums = nullptr;
  std::int64_t rows = 0, width = 0;
  std::int64_t rows_per_part = 0;
  bool adds = false;  // to the sums that are there
};

}  // namespace troupe
