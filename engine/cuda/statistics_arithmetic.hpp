#pragma once

#include <cstdint>
#include <limits>

#include "troupe/engine/events/moments.hpp"

// The arithmetic of statistics on a GPU, as plain C++17 without LibTorch: nvcc
// compiles it for the device, and the tests compile it for the host and compare
// it with `measure`. Everything is constexpr, so that kernels can call it. See
// engine/events/statistics.hpp for the meaning of each number.
namespace troupe {

/// Values that a thread keeps in registers at a time, to read them twice.
template <class T>
constexpr int run_values = 64 / sizeof(T);

template <class T>
struct device_float;

// Between the limits, sums and squares of a run stay within T's range.
template <>
struct device_float<float> {
  using word = std::uint32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float largest = 0x1p60f, smallest = 0x1p-35f;
  static constexpr float smallest_squares = 0x1p-90f;
  static constexpr bool needs_scale = false;  // fp64 holds its squares
};

template <>
struct device_float<double> {
  using word = std::uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double largest = 0x1p500, smallest = 0x1p-400;
  static constexpr double smallest_squares = 0x1p-850;
  static constexpr bool needs_scale = true;
};

template <class T>
using word_of = typename device_float<T>::word;

template <class T>
constexpr word_of<T> magnitude_bits(T value) {
  return __builtin_bit_cast(word_of<T>, value)
         & ~(word_of<T>{1} << (8 * sizeof(T) - 1));
}

template <class T>
constexpr T value_of_bits(word_of<T> bits) {
  return __builtin_bit_cast(T, bits);
}

template <class T>
constexpr word_of<T> infinity_bits = (word_of<T>{2} * device_float<T>::bias + 1)
                                     << device_float<T>::mantissa;

// Halfway between the largest value of fp16 (bf16) and the next power of two,
// which rounds up; and half of the smallest, which rounds to zero.
template <class T>
constexpr word_of<T> fp16_overflow_bits = magnitude_bits(T(65520));
template <class T>
constexpr word_of<T> fp16_underflow_bits = magnitude_bits(T(0x1p-25));
template <class T>
constexpr word_of<T> bf16_overflow_bits = magnitude_bits(T(0x1.ffp127));
template <class T>
constexpr word_of<T> bf16_underflow_bits = magnitude_bits(T(0x1p-134));

constexpr float widened_bfloat16(std::uint16_t bits) {
  return __builtin_bit_cast(float, std::uint32_t{bits} << 16);
}

/// Treats denormals as 1.f x 2^-14 - 2^-14.
constexpr float widened_half(std::uint16_t bits) {
  constexpr std::uint32_t rebias = 112u << 23;
  const auto low = (std::uint32_t{bits} & 0x7fffu) << 13;
  const auto normal = low + rebias;
  const auto tiny = __builtin_bit_cast(
    std::uint32_t, __builtin_bit_cast(float, normal + (1u << 23)) - 0x1p-14f);
  const auto finite = low < 1u << 23 ? tiny : normal;
  const auto wide = low >= 0x1fu << 23 ? normal + rebias : finite;
  return __builtin_bit_cast(float,
                            wide | (std::uint32_t{bits} & 0x8000u) << 16);
}

/// Results of some threads so far. A block counts in 32 bits, which saves
/// registers for values; a launch in 64.
template <class Count>
struct basic_part {
  moments values{};
  double max_abs = 0;
  double min_abs = std::numeric_limits<double>::infinity();
  Count nans = 0;
  Count infs = 0;
  Count zeros = 0;
  Count fp16_overflows = 0;
  Count fp16_underflows = 0;
  Count bf16_overflows = 0;
  Count bf16_underflows = 0;
  double instance_means = 0;
  double instance_variances = 0;

  constexpr void add_instance(const moments& instance) {
    instance_means += instance.mean;
    instance_variances += instance.variance();
  }

  /// Joins everything except the moments.
  template <class Other>
  constexpr void join_rest(const basic_part<Other>& more) {
    max_abs = more.max_abs > max_abs ? more.max_abs : max_abs;
    min_abs = more.min_abs < min_abs ? more.min_abs : min_abs;
    nans += more.nans;
    infs += more.infs;
    zeros += more.zeros;
    fp16_overflows += more.fp16_overflows;
    fp16_underflows += more.fp16_underflows;
    bf16_overflows += more.bf16_overflows;
    bf16_underflows += more.bf16_underflows;
    instance_means += more.instance_means;
    instance_variances += more.instance_variances;
  }

  template <class Other>
  constexpr void join(const basic_part<Other>& more) {
    values.add(more.values);
    join_rest(more);
  }
};

using statistics_part = basic_part<std::int32_t>;
using statistics_total = basic_part<std::int64_t>;

/// Up to run_values values of a tensor, in a thread's registers. Loops have a
/// constant length, to keep them there.
template <class T>
class value_run {
  using layout = device_float<T>;
  using word = word_of<T>;

 public:
  template <class Load>
  constexpr value_run(Load load, std::int64_t first, std::int64_t step,
                      int count)
    : count_{count} {
    for (int i = 0; i < run_values<T>; ++i)
      values_[i] = i < count ? static_cast<T>(load(first + i * step)) : T(0);
  }

  /// Adds all to `part`, but the moments to `instance`.
  constexpr void add_to(statistics_part& part, moments& instance) const {
    word largest = 0, smallest = infinity_bits<T>;
    for (int i = 0; i < run_values<T>; ++i)
      if (i < count_) {
        const auto bits = magnitude_bits(values_[i]);
        largest = bits > largest ? bits : largest;
        smallest = bits < smallest ? bits : smallest;
      }
    if (largest > magnitude_bits(layout::largest)
        || !add_moments(largest, instance))
      largest = add_carefully(part, instance);
    if (smallest < infinity_bits<T>)
      add_range(largest, smallest, part);
  }

  /// The histogram's bin of value i; -1 if it has none.
  constexpr int bin(int i) const {
    const auto bits = magnitude_bits(values_[i]);
    return i < count_ && bits > 0 && bits < infinity_bits<T> ? bin_of(bits)
                                                             : -1;
  }

 private:
  static constexpr int bin_of(word bits) {
    auto exponent = static_cast<int>(bits >> layout::mantissa) - layout::bias;
    if (sizeof(T) == sizeof(float) && exponent == -layout::bias)
      for (exponent = -150; bits > 0; bits >>= 1)
        ++exponent;
    const auto bin = exponent + 150;
    return bin < 0 ? 0 : bin > 278 ? 278 : bin;
  }

  /// Returns false, adding nothing, if squares would leave T's range.
  constexpr bool add_moments(word largest, moments& instance) const {
    T sum = 0;
    for (int i = 0; i < run_values<T>; ++i)
      sum += values_[i];
    const auto mean = sum / static_cast<T>(count_);
    T distances = 0, squares = 0;
    for (int i = 0; i < run_values<T>; ++i) {
      const auto distance = i < count_ ? values_[i] - mean : T(0);
      distances += distance;
      squares += distance * distance;
    }
    if (largest > 0 && largest < magnitude_bits(layout::smallest)
        && squares < layout::smallest_squares)
      return false;
    add(mean, distances, squares, count_, 1, instance);
    return true;
  }

  /// Corrects for the rounding of the mean used for the distances.
  static constexpr void add(double mean, double distances, double squares,
                            int count, double scale, moments& to) {
    const auto missed = count == run_values<T>
                          ? distances * (1.0 / run_values<T>)
                          : distances / count;
    const auto left = squares - missed * distances;
    to.add({static_cast<double>(count), (mean + missed) / scale,
            left > 0 ? left / scale / scale : 0});
  }

  constexpr bool is_finite(int i) const {
    return i < count_ && magnitude_bits(values_[i]) < infinity_bits<T>;
  }

  /// Counts kinds of values; returns the largest finite value's bits.
  constexpr word count_kinds(int& finite, statistics_part& part) const {
    word largest = 0;
    for (int i = 0; i < run_values<T>; ++i) {
      const auto bits = magnitude_bits(values_[i]);
      const auto there = i < count_;
      part.nans += there && bits > infinity_bits<T>;
      part.infs += there && bits == infinity_bits<T>;
      finite += is_finite(i);
      largest = is_finite(i) && bits > largest ? bits : largest;
    }
    return largest;
  }

  /// A power of two that brings values of that magnitude near one.
  static constexpr double scale_for(word largest) {
    if (!layout::needs_scale)
      return 1;
    const auto exponent =
      2 * layout::bias - static_cast<int>(largest >> layout::mantissa);
    const auto normal = exponent < 1                  ? 1
                        : exponent > 2 * layout::bias ? 2 * layout::bias
                                                      : exponent;
    return value_of_bits<double>(static_cast<std::uint64_t>(normal) << 52);
  }

  /// Adds in fp64, without non-finite values. Returns the largest finite bits.
  constexpr word add_carefully(statistics_part& part, moments& instance) const {
    int finite = 0;
    const auto largest = count_kinds(finite, part);
    if (finite == 0)
      return largest;
    const auto scale = scale_for(largest);
    double sum = 0;
    for (int i = 0; i < run_values<T>; ++i)
      sum += is_finite(i) ? static_cast<double>(values_[i]) * scale : 0;
    const auto mean = sum / finite;
    double distances = 0, squares = 0;
    for (int i = 0; i < run_values<T>; ++i) {
      const auto distance =
        is_finite(i) ? static_cast<double>(values_[i]) * scale - mean : 0;
      distances += distance;
      squares += distance * distance;
    }
    add(mean, distances, squares, finite, scale, instance);
    return largest;
  }

  constexpr void add_range(word largest, word smallest,
                           statistics_part& part) const {
    const auto most = static_cast<double>(value_of_bits<T>(largest));
    const auto least = static_cast<double>(value_of_bits<T>(smallest));
    part.max_abs = most > part.max_abs ? most : part.max_abs;
    part.min_abs = least < part.min_abs ? least : part.min_abs;
    if (smallest <= fp16_underflow_bits<T>)
      count_small(part);
    if (largest >= fp16_overflow_bits<T>)
      count_large(part);
  }

  constexpr void count_small(statistics_part& part) const {
    int zeros = 0, fp16 = 0, bf16 = 0;
    for (int i = 0; i < run_values<T>; ++i) {
      const auto bits = magnitude_bits(values_[i]);
      const auto there = i < count_;
      zeros += there && bits == 0;
      fp16 += there && bits > 0 && bits <= fp16_underflow_bits<T>;
      bf16 += there && bits > 0 && bits <= bf16_underflow_bits<T>;
    }
    part.zeros += zeros;
    part.fp16_underflows += fp16;
    part.bf16_underflows += bf16;
  }

  constexpr void count_large(statistics_part& part) const {
    int fp16 = 0, bf16 = 0;
    for (int i = 0; i < run_values<T>; ++i) {
      const auto bits = magnitude_bits(values_[i]);
      fp16 += is_finite(i) && bits >= fp16_overflow_bits<T>;
      bf16 += is_finite(i) && bits >= bf16_overflow_bits<T>;
    }
    part.fp16_overflows += fp16;
    part.bf16_overflows += bf16;
  }

  T values_[run_values<T>]{};
  int count_;
};

}  // namespace troupe
