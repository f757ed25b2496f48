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
/// equal bits on all. An H100 runs 2^17 such threads at once.
constexpr std::int64_t norm_blocks(std::int64_t rows, std::int64_t width) {
  const auto cut = cut_norm_row(width);
  const auto most = smaller((1 << 17) / cut.threads, 1024) / cut.teams;
  return smaller((rows + cut.teams - 1) / cut.teams, most);
}
constexpr std::int64_t norm_parts(std::int64_t rows, std::int64_t width) {
  return norm_blocks(rows, width) * cut_norm_row(width).teams;
}

/// The gradients: of the inputs, plus `added`, and each team's part of those
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

/// A block of `column_sums_kernel` sums a part's rows in 32 columns.
constexpr int column_lanes = 8;
constexpr int tile_columns = 4 * column_lanes;
constexpr int row_lanes = block_threads / column_lanes;

/// Sums over the rows of each part, in fp32: [parts, width]. The width is a
/// multiple of four, and of parts there are at most 65,535.
struct column_sums_task {
  typed_values values{}, sums{};
  std::int64_t rows = 0, width = 0;
  std::int64_t rows_per_part = 0;
  bool adds = false;  // to the sums that are there

  constexpr std::int64_t tiles() const {
    return (width + tile_columns - 1) / tile_columns;
  }
  constexpr std::int64_t parts() const {
    return (rows + rows_per_part - 1) / rows_per_part;
  }
};

/// Large matrices are summed in so many parts that these fill a device.
constexpr std::int64_t rows_per_sum(std::int64_t rows) {
  constexpr std::int64_t least = 256, most_parts = 512;
  return rows <= least * most_parts ? least
                                    : (rows + most_parts - 1) / most_parts;
}

enum class gpu_activation : std::uint8_t { gelu, gelu_tanh, silu };

/// output = activation(x) * factor; where there are gradients of the output,
/// instead those of x and factor. `count` is a multiple of four.
struct gated_task {
  typed_values x{}, factor{}, output{};
  typed_values gradient{}, of_x{}, of_factor{};
  std::int64_t count = 0;
  gpu_activation activation{};
};

/// Rotates each head's elements i and i + pairs, i < pairs, by the angle of
/// its position; the elements from 2 * pairs on stay. x: [rows, positions,
/// heads, size] of these strides; the output has none of its own. Sizes, pairs
/// and strides are multiples of four.
struct rotate_task {
  typed_values x{}, output{};
  typed_values cosines{}, sines{};  // fp32 [positions, pairs]
  std::int64_t row_stride = 0, position_stride = 0, head_stride = 0;
  std::int64_t rows = 0;
  std::int32_t positions = 0, heads = 0, size = 0, pairs = 0;
  bool inverse = false;  // by the negative angle, as for gradients

  /// Four pairs each, or four elements that stay.
  constexpr std::int32_t groups() const { return (size - pairs) / 4; }
  /// The groups of all heads of a position; a thread takes one at a time.
  constexpr std::int32_t items() const { return heads * groups(); }
};

/// Losses of rows of logits, and of each row two norms: the greatest logit, and
/// the logarithm of the sum of exponentials of what the logits are less than
/// it; where there is a scale, instead the gradients of that times the loss,
/// which overwrite the logits. The width is a multiple of four. A target that
/// is neither a class nor `ignored` gives NaN.
struct cross_entropy_task {
  typed_values logits{};
  const std::int64_t* targets = nullptr;
  float* losses = nullptr;
  float* norms = nullptr;
  const float* scale = nullptr;
  std::int64_t rows = 0, width = 0, ignored = 0;
};

}  // namespace troupe
