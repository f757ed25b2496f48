#pragma once

#include <cstdint>

#include "troupe/engine/cuda/statistics_arithmetic.hpp"
#include "troupe/engine/device/statistics_row.hpp"

// Divides tensors into pieces, one per block of threads; like the arithmetic,
// for the device and for tests on the host.
namespace troupe {

constexpr int warp_lanes = 32;
constexpr int block_warps = 8;
constexpr int block_threads = warp_lanes * block_warps;
constexpr std::int64_t piece_values = 32768;

enum class device_type : std::uint8_t { fp32, fp64, fp16, bf16 };

/// A tensor in the kernel's form: instances of `width` values, one after the
/// other. An instance is handled by `lanes` threads: 1, a warp, or a block. A
/// piece is `per_piece` instances, or one of `split` equal parts of one.
struct statistics_entry {
  const void* data = nullptr;
  std::int64_t instances = 0;
  std::int64_t width = 0;
  std::int32_t first_piece = 0;
  std::int32_t row = 0;
  std::int32_t per_piece = 1;
  std::int32_t split = 1;
  std::int16_t lanes = 1;
  device_type type = device_type::fp32;
  bool flat = false;  // instances of one value each, handled as one instance

  constexpr std::int64_t pieces() const {
    return split > 1 ? instances * split
                     : (instances + per_piece - 1) / per_piece;
  }
};

/// For a tensor with at least one value.
constexpr statistics_entry cut(std::int64_t instances, std::int64_t width) {
  statistics_entry result;
  result.flat = width == 1;
  result.instances = result.flat ? 1 : instances;
  result.width = result.flat ? instances : width;
  if (result.width > 8192) {
    result.lanes = block_threads;
    result.split =
      static_cast<std::int32_t>((result.width - 1) / piece_values + 1);
    return result;
  }
  result.lanes = result.width > warp_lanes ? warp_lanes : 1;
  const std::int32_t teams = block_threads / result.lanes;
  const auto rounds = piece_values / (result.width * teams);
  result.per_piece = teams * static_cast<std::int32_t>(rounds > 1 ? rounds : 1);
  return result;
}

/// A piece's content: values [begin, end) of each of the instances [first,
/// last).
struct piece_range {
  std::int64_t first;
  std::int64_t last;
  std::int64_t begin;
  std::int64_t end;
};

constexpr std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

constexpr piece_range range_of(const statistics_entry& entry,
                               std::int64_t piece) {
  if (entry.split == 1)
    return {piece * entry.per_piece,
            smaller((piece + 1) * entry.per_piece, entry.instances), 0,
            entry.width};
  const auto instance = piece / entry.split;
  const auto begin = piece % entry.split * piece_values;
  return {instance, instance + 1, begin,
          smaller(begin + piece_values, entry.width)};
}

constexpr void write_row(const statistics_entry& entry,
                         const statistics_total& all, double* row) {
  const auto count = entry.instances * entry.width;
  const auto finite = all.values.count > 0;
  row[column_count] = static_cast<double>(count);
  row[column_nans] = static_cast<double>(all.counts.nans);
  row[column_infs] = static_cast<double>(all.counts.infs);
  row[column_zeros] = static_cast<double>(all.counts.zeros);
  row[column_fp16_overflows] = static_cast<double>(all.counts.fp16_overflows);
  row[column_fp16_underflows] = static_cast<double>(all.counts.fp16_underflows);
  row[column_bf16_overflows] = static_cast<double>(all.counts.bf16_overflows);
  row[column_bf16_underflows] = static_cast<double>(all.counts.bf16_underflows);
  row[column_max_abs] = all.range.most;
  row[column_min_abs] = finite ? all.range.least : 0;
  row[column_mean] = all.values.mean;
  row[column_squares] = all.values.squares;
  row[column_instances] =
    static_cast<double>(entry.flat ? count : entry.instances);
  row[column_instance_mean_sum] =
    entry.flat ? all.values.mean * all.values.count : all.instances.means;
  row[column_instance_variance_sum] = entry.flat ? 0 : all.instances.variances;
}

/// How values are stored, and what they are widened to for the arithmetic.
template <class T>
struct plain_format {
  using stored = T;
  using wide = T;
  static constexpr T widened(T value) { return value; }
};

struct half_format {
  using stored = std::uint16_t;
  using wide = float;
  static constexpr float widened(std::uint16_t bits) {
    return widened_half(bits);
  }
};

struct bfloat16_format {
  using stored = std::uint16_t;
  using wide = float;
  static constexpr float widened(std::uint16_t bits) {
    return widened_bfloat16(bits);
  }
};

/// Calls `visit` with the format of an entry's values.
template <class Visit>
constexpr auto with_format(device_type type, Visit visit) {
  switch (type) {
    case device_type::fp64:
      return visit(plain_format<double>{});
    case device_type::fp16:
      return visit(half_format{});
    case device_type::bf16:
      return visit(bfloat16_format{});
    default:
      return visit(plain_format<float>{});
  }
}

/// Values of 16 bytes, which a lane loads at once.
template <class Format>
constexpr int vector_values = 16 / sizeof(typename Format::stored);

/// The index of a lane's value in a tile: the values that a team of lanes takes
/// at a time, vectors of the lanes in turn.
template <class Format>
constexpr int place_in_tile(int i, int lanes, int lane) {
  constexpr int vector = vector_values<Format>;
  return (i / vector * lanes + lane) * vector + i % vector;
}

/// How many of its values of a tile a lane has, if the tile ends after `rest`.
template <class Format>
constexpr int lane_count(int rest, int lanes, int lane) {
  constexpr int vector = vector_values<Format>;
  const auto rows = rest / (lanes * vector);
  const auto left = rest - (rows * lanes + lane) * vector;
  return rows * vector + (left < 0 ? 0 : left < vector ? left : vector);
}

/// A centre for sums: a finite value, or 0.
template <class Format>
constexpr double centre_of(typename Format::stored value) {
  const auto wide = Format::widened(value);
  using wide_type = typename Format::wide;
  return magnitude_bits(wide) < infinity_bits<wide_type>
           ? static_cast<double>(wide)
           : 0;
}

}  // namespace troupe
