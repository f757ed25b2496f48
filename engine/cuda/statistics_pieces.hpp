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
constexpr std::int64_t piece_values = 16384;

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
  if (result.width > 2048) {
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
  const auto size = (entry.width + entry.split - 1) / entry.split;
  const auto begin = piece % entry.split * size;
  return {instance, instance + 1, smaller(begin, entry.width),
          smaller(begin + size, entry.width)};
}

constexpr void write_row(const statistics_entry& entry,
                         const statistics_total& all, double* row) {
  const auto count = entry.instances * entry.width;
  const auto finite = all.values.count > 0;
  row[column_count] = static_cast<double>(count);
  row[column_nans] = static_cast<double>(all.nans);
  row[column_infs] = static_cast<double>(all.infs);
  row[column_zeros] = static_cast<double>(all.zeros);
  row[column_fp16_overflows] = static_cast<double>(all.fp16_overflows);
  row[column_fp16_underflows] = static_cast<double>(all.fp16_underflows);
  row[column_bf16_overflows] = static_cast<double>(all.bf16_overflows);
  row[column_bf16_underflows] = static_cast<double>(all.bf16_underflows);
  row[column_max_abs] = all.max_abs;
  row[column_min_abs] = finite ? all.min_abs : 0;
  row[column_mean] = all.values.mean;
  row[column_squares] = all.values.squares;
  row[column_instances] =
    static_cast<double>(entry.flat ? count : entry.instances);
  row[column_instance_mean_sum] =
    entry.flat ? all.values.mean * all.values.count : all.instance_means;
  row[column_instance_variance_sum] = entry.flat ? 0 : all.instance_variances;
}

template <class Source>
struct plain_values {
  const Source* data;
  constexpr Source operator()(std::int64_t i) const { return data[i]; }
};

struct half_values {
  const std::uint16_t* data;
  constexpr float operator()(std::int64_t i) const {
    return widened_half(data[i]);
  }
};

struct bfloat16_values {
  const std::uint16_t* data;
  constexpr float operator()(std::int64_t i) const {
    return widened_bfloat16(data[i]);
  }
};

/// The run of a lane from value i, of those before `end`, in steps of `lanes`.
template <class T, class Load>
constexpr value_run<T> run_at(Load load, std::int64_t i, std::int64_t end,
                              int lanes) {
  // Uses 32 bits, as 64-bit division is slow on a device.
  const auto reach = smaller(end - i, std::int64_t{lanes} * run_values<T>);
  return {load, i, lanes, (static_cast<int>(reach) + lanes - 1) / lanes};
}

}  // namespace troupe
