#pragma once

namespace troupe {

/// The columns of a row of `device_kernels::measure`: the fields of
/// tensor_statistics (engine/events/statistics.hpp), in their order. Counts are
/// exact up to 2^53.
enum statistics_column {
  column_count,
  column_nans,
  column_infs,
  column_zeros,
  column_fp16_overflows,
  column_fp16_underflows,
  column_bf16_overflows,
  column_bf16_underflows,
  column_max_abs,
  column_min_abs,
  column_mean,
  column_squares,
  column_instances,
  column_instance_mean_sum,
  column_instance_variance_sum,
  statistics_columns,
};

/// A wide row appends the bins of a log2_histogram.
constexpr int histogram_bins = 279;
constexpr int wide_statistics_columns = statistics_columns + histogram_bins;

}  // namespace troupe
