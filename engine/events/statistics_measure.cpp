#include <ATen/Dispatch.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "troupe/base/fail.hpp"
#include "troupe/engine/events/moments.hpp"
#include "troupe/engine/events/row_sample.hpp"
#include "troupe/engine/events/statistics.hpp"
#include "troupe/engine/events/statistics_kernels.hpp"

namespace troupe {
namespace {

/// Counts the finite values among all into a log2_histogram.
class log2_counter {
 public:
  /// `denormals` may be false if there are none.
  void add(const float* values, std::int64_t count, bool denormals);
  void add(const double* values, std::int64_t count, bool denormals);

  log2_histogram histogram() const;

 private:
  // By fp32's exponent, in four copies: runs of equal values would otherwise
  // wait for each other. Exponents 0 (zeros and denormals) and 255 (not finite)
  // are unused.
  std::array<std::array<std::int64_t, 256>, 4> exponents_{};
  log2_histogram others_{};
};

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
}

void log2_counter::add(const float* values, std::int64_t count,
                       bool denormals) {
  auto& [first, second, third, fourth] = exponents_;
  std::int64_t done = 0;
  for (; done + 4 <= count; done += 4) {
    ++first[magnitude(values[done]) >> 23];
    ++second[magnitude(values[done + 1]) >> 23];
    ++third[magnitude(values[done + 2]) >> 23];
    ++fourth[magnitude(values[done + 3]) >> 23];
  }
  for (; done < count; ++done)
    ++first[magnitude(values[done]) >> 23];
  if (!denormals)
    return;
  for (std::int64_t i = 0; i < count; ++i)
    if (const auto bits = magnitude(values[i]); bits - 1 < 0x007fffff)
      ++others_[static_cast<std::size_t>(std::bit_width(bits))];
}

void log2_counter::add(const double* values, std::int64_t count, bool) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto exponent =
      static_cast<int>(std::bit_cast<std::uint64_t>(values[i]) >> 52 & 0x7ff);
    if (values[i] != 0 && exponent != 0x7ff)
      ++others_[static_cast<std::size_t>(
        std::clamp(exponent - 1023 + 150, 0, 278))];
  }
}

log2_histogram log2_counter::histogram() const {
  auto result = others_;
  for (const auto& copy : exponents_)
    for (std::size_t exponent = 1; exponent < 255; ++exponent)
      result[exponent + 23] += copy[exponent];
  return result;
}

// Instances of fewer values share a chunk.
constexpr std::int64_t narrow = 64;

/// Unless `masked`, all values are finite.
template <bool masked, class T>
moments moments_of(const T* x, std::int64_t count) {
  const auto counts = [](T value) { return !masked || std::isfinite(value); };
  std::int64_t finite = 0;
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    finite += counts(x[i]) ? 1 : 0;
    sum += counts(x[i]) ? static_cast<double>(x[i]) : 0;
  }
  const auto n = static_cast<double>(finite);
  const auto mean = finite > 0 ? sum / n : 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto distance = static_cast<double>(x[i]) - mean;
    squares += counts(x[i]) ? distance * distance : 0;
  }
  return {n, mean, squares};
}

/// Walks over a tensor's memory chunk by chunk.
class statistics_walk {
 public:
  statistics_walk(const statistics_kernels& kernels, bool with_histogram)
    : kernels_{kernels} {
    if (with_histogram)
      counter_.emplace();
  }

  template <class Source>
  tensor_statistics run_extremes(const Source* x, std::int64_t instances,
                                 std::int64_t width) {
    result_.instances = instances;
    result_.count = instances * width;
    for (std::int64_t begin = 0; begin < result_.count;
         begin += chunk_of<Source>) {
      const auto count = std::min(chunk_of<Source>, result_.count - begin);
      const auto* values = load(x + begin, count);
      const auto seen = extremes_of(values)(values, count, x + begin + count);
      add_range(seen);
      result_.nans += seen.nans;
      result_.infs += seen.infs;
    }
    return finish();
  }

  template <class Source>
  tensor_statistics run(const Source* x, std::int64_t instances,
                        std::int64_t width) {
    result_.instances = instances;
    result_.count = instances * width;
    if (width < narrow)
      add_narrow_instances(x, instances, width);
    else
      for (std::int64_t i = 0; i < instances; ++i)
        add_instance(x + i * width, width, x + (i + 1) * width);
    return finish();
  }

  /// `next`: what will be read after this row.
  template <class Source>
  tensor_statistics run_row(const Source* x, std::int64_t width,
                            const Source* next) {
    result_.instances = 1;
    result_.count = width;
    add_instance(x, width, next);
    return finish();
  }

 private:
  template <class Source>
  static constexpr auto chunk_of =
    chunk_bytes
    / static_cast<std::int64_t>(std::max(sizeof(Source), sizeof(float)));

  const float* load(const float* x, std::int64_t) { return x; }
  const double* load(const double* x, std::int64_t) { return x; }
  const float* load(const at::Half* x, std::int64_t count) {
    kernels_.widen_half(&x->x, widened_.data(), count);
    return widened_.data();
  }
  const float* load(const at::BFloat16* x, std::int64_t count) {
    kernels_.widen_bfloat16(&x->x, widened_.data(), count);
    return widened_.data();
  }

  template <class Source>
  void add_instance(const Source* x, std::int64_t width, const Source* next) {
    moments instance;
    for (std::int64_t begin = 0; begin < width; begin += chunk_of<Source>) {
      const auto count = std::min(chunk_of<Source>, width - begin);
      const auto end = begin + count;
      instance.add(
        chunk(load(x + begin, count), count, end < width ? x + end : next));
    }
    add_to_sums(instance);
    whole_.add(instance);
  }

  template <class Source>
  void add_narrow_instances(const Source* x, std::int64_t instances,
                            std::int64_t width) {
    const auto all = instances * width;
    const auto step = chunk_of<Source> / width * width;
    for (std::int64_t begin = 0; begin < all; begin += step) {
      const auto count = std::min(step, all - begin);
      const auto* values = load(x + begin, count);
      const auto together = chunk(values, count, x + begin + count);
      whole_.add(together);
      if (width == 1)
        result_.instance_mean_sum += together.mean * together.count;
      else
        add_instances(values, count, width,
                      together.count < static_cast<double>(count));
    }
  }

  template <class T>
  void add_instances(const T* x, std::int64_t count, std::int64_t width,
                     bool masked) {
    for (std::int64_t i = 0; i < count; i += width)
      add_to_sums(masked ? moments_of<true>(x + i, width)
                         : moments_of<false>(x + i, width));
  }

  void add_to_sums(const moments& instance) {
    result_.instance_mean_sum += instance.mean;
    result_.instance_variance_sum += instance.variance();
  }

  auto kernel_of(const float*) const { return kernels_.floats; }
  auto kernel_of(const double*) const { return kernels_.doubles; }
  auto extremes_of(const float*) const { return kernels_.float_extremes; }
  auto extremes_of(const double*) const { return kernels_.double_extremes; }

  template <class T>
  moments chunk(const T* x, std::int64_t count, const void* next) {
    const auto seen = kernel_of(x)(x, count, next);
    if (counter_)
      counter_->add(x, count, seen.fp16_underflows > 0);
    add_range(seen);
    result_.add(seen);
    return {static_cast<double>(seen.finite), seen.mean, seen.squares};
  }

  void add_range(const chunk_statistics& seen) {
    result_.max_abs = std::max(result_.max_abs, seen.max_abs);
    if (seen.finite > 0)
      min_abs_ = std::min(min_abs_, seen.min_abs);
  }

  tensor_statistics finish() {
    result_.min_abs = result_.finite() > 0 ? min_abs_ : 0;
    result_.mean = whole_.mean;
    result_.squares = whole_.squares;
    if (counter_)
      result_.histogram = counter_->histogram();
    return result_;
  }

  const statistics_kernels& kernels_;
  tensor_statistics result_;
  moments whole_;
  double min_abs_ = std::numeric_limits<double>::infinity();
  std::optional<log2_counter> counter_;
  alignas(64) std::array<float, chunk_floats> widened_;
};

bool is_float(at::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || type == at::kHalf
         || type == at::kBFloat16;
}

void require_measurable(const at::Tensor& tensor) {
  if (!is_measurable(tensor))
    fail(error_code::invalid_argument,
         "can't compute statistics of this kind of tensor: {}; convert it to a "
         "dense float tensor",
         describe(tensor));
}

/// The tensor, or a copy in a form that the walk can read.
at::Tensor readable(const at::Tensor& tensor) {
  const at::NoGradGuard guard;
  auto result = tensor.cpu().resolve_neg();
  if (!is_float(result.scalar_type()))
    result = result.to(result.element_size() < 4 ? at::kFloat : at::kDouble);
  return lies_by_instances(result) ? result : result.contiguous();
}

bool is_readable(const at::Tensor& tensor) {
  return tensor.is_cpu() && !tensor.is_neg() && is_float(tensor.scalar_type())
         && lies_by_instances(tensor);
}

/// The result of `visit(values, instances, width)` on the tensor's memory.
template <class Visit>
tensor_statistics visit_memory(const at::Tensor& tensor, Visit visit) {
  require_measurable(tensor);
  if (tensor.numel() == 0)
    return {};
  if (!is_readable(tensor))
    return visit_memory(readable(tensor), visit);
  const auto instances = tensor.dim() == 0 ? 1 : tensor.size(0);
  const auto width = tensor.numel() / instances;
  return AT_DISPATCH_FLOATING_TYPES_AND2(
    at::kHalf, at::kBFloat16, tensor.scalar_type(), "statistics",
    [&] { return visit(tensor.const_data_ptr<scalar_t>(), instances, width); });
}

}  // namespace

const statistics_kernels& fastest_kernels() {
  static const auto& fastest = *usable_kernels().back();
  return fastest;
}

bool is_measurable(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided
         && (is_float(tensor.scalar_type())
             || at::isIntegralType(tensor.scalar_type(), true));
}

tensor_statistics measure(const at::Tensor& tensor, bool with_histogram,
                          const statistics_kernels& kernels) {
  return visit_memory(tensor, [&](const auto* values, std::int64_t instances,
                                  std::int64_t width) {
    return statistics_walk(kernels, with_histogram)
      .run(values, instances, width);
  });
}

std::vector<tensor_statistics> measure_rows(
  const at::Tensor& tensor, std::int64_t width,
  const std::vector<std::int64_t>& rows, const statistics_kernels& kernels) {
  std::vector<tensor_statistics> result;
  result.reserve(rows.size());
  AT_DISPATCH_FLOATING_TYPES_AND2(
    at::kHalf, at::kBFloat16, tensor.scalar_type(), "statistics", [&] {
      const auto* values = tensor.const_data_ptr<scalar_t>();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto next = rows[std::min(i + 1, rows.size() - 1)];
        result.push_back(
          statistics_walk(kernels, false)
            .run_row(values + rows[i] * width, width, values + next * width));
      }
    });
  return result;
}

tensor_statistics measure_extremes(const at::Tensor& tensor,
                                   const statistics_kernels& kernels) {
  return visit_memory(tensor, [&](const auto* values, std::int64_t instances,
                                  std::int64_t width) {
    return statistics_walk(kernels, false)
      .run_extremes(values, instances, width);
  });
}

}  // namespace troupe
