#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/engine/device/philox.hpp"
#include "troupe/engine/events/row_estimates.hpp"
#include "troupe/engine/events/statistics.hpp"

// Estimates of a tensor's statistics from a random sample of its rows, with
// confidence intervals (W. G. Cochran, "Sampling Techniques", 1977, chapters 2,
// 5 and 6).
//
// A row is a run of `width` values, usually the last dimension; a stratum is
// `rows` of them, of which `chosen` are drawn, without replacement and with
// equal probability. With k = 1 / chosen - 1 / rows, which contains the finite
// population correction, the mean of numbers y of the drawn rows is an unbiased
// estimate of the mean over the stratum's rows, and k s2(y) of its variance,
// where s2 is the sample's unbiased variance.
//
// Mean and variance within an instance need rows of each instance, so each is a
// stratum. With the mean a of a row and the sample's mean m of them, y = a
// estimates the instance's mean. Its variance (of N = rows * width values) is
// N / (N - 1) times the mean of u = mean((x - m)^2) over the rows, plus
// k s2(a): the square of m exceeds that of the instance's mean by the variance
// of m. Both estimates are unbiased, and the second one's own variance is that
// of y = u, to the first order. Strata are independent: their variances add up.
//
// Where instances have few rows, a sample of whole instances reads less. Then
// each is a row, there is one stratum, and y is an instance's own mean, or
// variance. Between instances these differ, so estimates are less precise.
namespace troupe {

/// How a tensor's memory is sampled.
struct row_plan {
  std::int64_t strata = 1;
  std::int64_t rows = 0;    // of each stratum
  std::int64_t chosen = 0;  // of them
  std::int64_t width = 0;   // values of a row
  bool rows_are_instances = false;

  std::int64_t drawn() const { return strata * chosen; }
};

/// A plan that reads about this share of the rows, and at least 32 rows, so
/// that intervals hold; nothing where all is to be read: of tensors of up to
/// 16,384 values or one dimension, of those that can't be read row by row
/// (integers, or instances that are not dense), and where a sample would be
/// more than half of the rows. `instances`: whether slices along dimension 0
/// are instances.
std::optional<row_plan> planned_rows(const at::Tensor& tensor, bool instances,
                                     double share);

/// The indices of the drawn rows within all strata's, ascending. A function of
/// its arguments alone, on all machines: the same in all processes.
std::vector<std::int64_t> drawn_rows(const row_plan& plan, philox_key key);

/// The statistics of each of these rows. On the CPU, as `measure`.
std::vector<tensor_statistics> measure_rows(
  const at::Tensor& tensor, std::int64_t width,
  const std::vector<std::int64_t>& rows,
  const statistics_kernels& kernels = fastest_kernels());

/// The estimates from the statistics of all drawn rows, in order.
row_estimates estimated(const row_plan& plan,
                        const std::vector<tensor_statistics>& drawn);

}  // namespace troupe
