#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/events/value_counts.hpp"

namespace troupe {

struct statistics_kernels;

/// Counts by power of two of |x|: bin e holds the finite, non-zero values with
/// floor(log2|x|) == e - 150, which is bins 1 to 277 for fp32. For fp64,
/// smaller values go to bin 0, larger ones to the last bin.
using log2_histogram = std::array<std::int64_t, 279>;

/// A histogram or none. Copies share it, as records are copied for each monitor
/// and few have one.
class shared_histogram {
 public:
  shared_histogram() = default;
  shared_histogram(const log2_histogram& subject)  // NOLINT: as an optional
    : held_(std::make_shared<const log2_histogram>(subject)) {}

  explicit operator bool() const { return held_ != nullptr; }
  const log2_histogram& operator*() const { return *held_; }
  const log2_histogram* operator->() const { return held_.get(); }
  bool operator==(const shared_histogram& other) const {
    return held_ && other.held_ ? *held_ == *other.held_ : held_ == other.held_;
  }

 private:
  std::shared_ptr<const log2_histogram> held_;
};

template <class Archive>
void fields(Archive& archive, shared_histogram& v) {
  auto bins = v ? std::optional(*v) : std::nullopt;
  archive("bins", bins);
  if constexpr (Archive::reads)
    v = bins ? shared_histogram(*bins) : shared_histogram{};
}

/// Results of one pass over a tensor. Non-finite values are counted, and
/// excluded from everything else.
struct tensor_statistics : value_counts {
  std::int64_t count = 0;  // all elements
  double max_abs = 0;      // 0 if nothing is finite
  double min_abs = 0;
  double mean = 0;
  double squares = 0;  // the sum of (x - mean)^2
  // Sums over instances (the slices along dimension 0; a scalar is one) of each
  // one's mean and unbiased variance (0 for fewer than two values).
  std::int64_t instances = 0;
  double instance_mean_sum = 0;
  double instance_variance_sum = 0;
  shared_histogram histogram{};

  bool operator==(const tensor_statistics&) const = default;

  std::int64_t finite() const { return count - nans - infs; }
  /// Unbiased: squares / (finite() - 1); 0 for fewer than two values.
  double variance() const;
  /// The square root of the sum of x^2.
  double l2() const;
};
TROUPE_FIELDS(tensor_statistics, count, nans, infs, zeros, fp16_overflows,
              fp16_underflows, bf16_overflows, bf16_underflows, max_abs,
              min_abs, mean, squares, instances, instance_mean_sum,
              instance_variance_sum, histogram)

/// The fastest ones that this machine can run (statistics_kernels.hpp).
const statistics_kernels& fastest_kernels();

/// Makes one pass over `tensor`, on the calling thread, without autograd. Any
/// shape and any strides; fp32, fp64, fp16, bf16, integers and bool. For an
/// empty tensor everything is 0. Throws `error` (invalid_argument) for other
/// tensors, including undefined ones. fp16 and bf16 are computed as fp32; sums
/// of up to 4096 values as fp32 unless that loses range, and joined as fp64.
/// Equal bits on all machines of an architecture.
tensor_statistics measure(
  const at::Tensor& tensor, bool with_histogram = false,
  const statistics_kernels& kernels = fastest_kernels());

/// Whether `measure` accepts the tensor.
bool is_measurable(const at::Tensor& tensor);

/// Measures only `count`, `nans`, `infs`, `max_abs`, `min_abs` and `instances`,
/// the rest is 0: half the work.
tensor_statistics measure_extremes(
  const at::Tensor& tensor,
  const statistics_kernels& kernels = fastest_kernels());

/// Merges as if both had been one tensor, concatenated along dimension 0. The
/// histogram is omitted unless both have one, or one has no elements.
tensor_statistics merge(const tensor_statistics& a, const tensor_statistics& b);

/// Moments and extremes of factor * x; counts stay those of x.
tensor_statistics scaled(const tensor_statistics& statistics, double factor);

}  // namespace troupe
