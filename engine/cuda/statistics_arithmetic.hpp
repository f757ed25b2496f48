#pragma once

#include <cstdint>
#include <limits>

#include "troupe/engine/events/moments.hpp"
#include "troupe/engine/events/value_counts.hpp"

// The arithmetic of statistics on a GPU, as plain C++17 without LibTorch: nvcc
// compiles it for the device, and the tests compile it for the host and compare
// it with `measure`. Everything is constexpr, so that kernels can call it. See
// engine/events/statistics.hpp for the meaning of each number.
//
// Values are taken in one of two ways. The fast one takes runs of them, in
// fp32; each run's sums are about its own mean. The careful one takes one after
// the other in fp64; it is for fp64 tensors, and for pieces with a value that
// the fast one refuses.
namespace troupe {

template <class T>
struct float_bits;

template <>
struct float_bits<float> {
  using word = std::uint32_t;
  static constexpr int mantissa = 23, bias = 127;
};

template <>
struct float_bits<double> {
  using word = std::uint64_t;
  static constexpr int mantissa = 52, bias = 1023;
};

template <class T>
using word_of = typename float_bits<T>::word;

template <class T>
constexpr word_of<T> magnitude_bits(T value) {
  return __builtin_bit_cast(word_of<T>, value)
         & ~(word_of<T>{1} << (8 * sizeof(T) - 1));
}

template <class T>
constexpr word_of<T> infinity_bits = (word_of<T>{2} * float_bits<T>::bias + 1)
                                     << float_bits<T>::mantissa;

// Halfway between the largest value of fp16 (bf16) and the next power of two,
// which rounds up; and half of the smallest, which rounds to zero.
template <class T>
constexpr word_of<T> fp16_overflow_bits() {
  return magnitude_bits(T(65520));
}
template <class T>
constexpr word_of<T> fp16_underflow_bits() {
  return magnitude_bits(T(0x1p-25));
}
template <class T>
constexpr word_of<T> bf16_overflow_bits() {
  return magnitude_bits(T(0x1.ffp127));
}
template <class T>
constexpr word_of<T> bf16_underflow_bits() {
  return magnitude_bits(T(0x1p-134));
}

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

/// Sums of some values' distances from a centre, in fp64. Two of one centre
/// are joined by additions alone. The centre is one of the values, so that its
/// squared distance from their mean is at most `count` variances: subtracting
/// it costs at most log2(count) of the 53 bits.
struct centred_sums {
  double count = 0;
  double distances = 0;
  double squares = 0;

  /// Adds `more` values whose mean is `distance` from the centre, and the sum
  /// of their squared distances from that mean.
  constexpr void add(double more, double distance, double more_squares) {
    const auto sum = more * distance;
    count += more;
    distances += sum;
    squares += more_squares + sum * distance;
  }
  constexpr void join(const centred_sums& more) {
    count += more.count;
    distances += more.distances;
    squares += more.squares;
  }
  constexpr moments about(double centre) const {
    if (count == 0)
      return {};
    const auto distance = distances / count;
    const auto excess = distance * distances;
    const auto within = excess < squares ? squares - excess : 0;
    const auto is_infinite = squares > std::numeric_limits<double>::max();
    return {count, centre + distance, is_infinite ? squares : within};
  }
};

/// Sums over instances.
struct instance_sums {
  double means = 0;
  double variances = 0;

  constexpr void add(const moments& instance) {
    means += instance.mean;
    variances += instance.variance();
  }
  constexpr void join(const instance_sums& more) {
    means += more.means;
    variances += more.variances;
  }
};

/// The smallest and the largest magnitude of finite values.
struct magnitude_range {
  double least = std::numeric_limits<double>::infinity();
  double most = 0;

  constexpr void join(const magnitude_range& more) {
    least = more.least < least ? more.least : least;
    most = more.most > most ? more.most : most;
  }
};

/// Results so far: of some threads of a block if Values is centred_sums, about
/// the centre of their piece; else of some pieces.
template <class Values, class Count>
struct basic_part {
  Values values{};
  instance_sums instances{};
  magnitude_range range{};
  basic_value_counts<Count> counts{};

  /// Joins everything except the values' moments.
  template <class Other>
  constexpr void join_rest(const Other& more) {
    instances.join(more.instances);
    range.join(more.range);
    counts.add(more.counts);
  }
};

struct thread_part : basic_part<centred_sums, std::int32_t> {
  constexpr void join(const thread_part& more) {
    values.join(more.values);
    join_rest(more);
  }
  /// `centre`: the piece's.
  constexpr void add_instance(const moments& instance, double centre) {
    instances.add(instance);
    values.add(instance.count, instance.mean - centre, instance.squares);
  }
};

using statistics_part = basic_part<moments, std::int32_t>;

struct statistics_total : basic_part<moments, std::int64_t> {
  template <class Other>
  constexpr void join(const Other& more) {
    values.add(more.values);
    join_rest(more);
  }
};

/// A piece's result, from that of all its threads.
constexpr statistics_part part_of(const thread_part& all, double centre) {
  return {all.values.about(centre), all.instances, all.range, all.counts};
}

/// Values that a thread keeps in registers at a time, to read them twice.
constexpr int run_length = 32;

/// What a thread's runs of an instance add up to.
struct run_sums {
  double centre;
  centred_sums values{};
  std::uint32_t least = infinity_bits<float>, most = 0;  // magnitudes

  constexpr magnitude_range range() const {
    return {double{__builtin_bit_cast(float, least)},
            double{__builtin_bit_cast(float, most)}};
  }
};

/// run_length values if Full, else the first `count`, and zeros. Loops have a
/// constant length, to keep the values in registers.
template <bool Full>
struct value_run {
  float values[run_length]{};
  int count = run_length;

  /// Returns false, having added a part, if a value is not finite, or rounds to
  /// infinity in fp16, or if squares would leave the range of fp32.
  constexpr bool add_to(run_sums& sums,
                        basic_value_counts<std::int32_t>& counts) const {
    std::uint32_t least = infinity_bits<float>, most = 0;
    float sum = 0;
    for (int i = 0; i < run_length; ++i) {
      const auto bits = magnitude_bits(values[i]);
      most = bits > most ? bits : most;
      least = is_there(i) && bits < least ? bits : least;
      sum += values[i];
    }
    const auto mean = Full ? sum * (1.0f / run_length) : sum / float(count);
    float distances = 0, squares = 0;
    for (int i = 0; i < run_length; ++i) {
      const auto distance = is_there(i) ? values[i] - mean : 0;
      distances += distance;
      squares += distance * distance;
    }
    add_moments(mean, distances, squares, sums);
    sums.most = most > sums.most ? most : sums.most;
    sums.least = least < sums.least ? least : sums.least;
    if (least <= fp16_underflow_bits<float>())
      count_small(counts);
    const auto is_tiny =
      most > 0 && most < magnitude_bits(0x1p-35f) && squares < 0x1p-90f;
    return most < fp16_overflow_bits<float>() && !is_tiny;
  }

 private:
  constexpr bool is_there(int i) const { return Full || i < count; }

  /// Corrects for the rounding of the mean used for the distances.
  constexpr void add_moments(double mean, double distances, double squares,
                             run_sums& sums) const {
    const auto missed =
      Full ? distances * (1.0 / run_length) : distances / count;
    const auto left = squares - missed * distances;
    sums.values.add(count, mean + missed - sums.centre, left > 0 ? left : 0);
  }

  constexpr void count_small(basic_value_counts<std::int32_t>& counts) const {
    for (int i = 0; i < run_length; ++i) {
      const auto bits = magnitude_bits(values[i]);
      counts.zeros += is_there(i) && bits == 0;
      counts.fp16_underflows +=
        bits > 0 && bits <= fp16_underflow_bits<float>();
      counts.bf16_underflows +=
        bits > 0 && bits <= bf16_underflow_bits<float>();
    }
  }
};

/// The careful way to add a value.
template <class T>
constexpr void add_carefully(T value, double centre, centred_sums& sums,
                             thread_part& part) {
  const auto bits = magnitude_bits(value);
  const auto is_finite = bits < infinity_bits<T>;
  auto& counts = part.counts;
  counts.nans += bits > infinity_bits<T>;
  counts.infs += bits == infinity_bits<T>;
  counts.zeros += bits == 0;
  counts.fp16_overflows += is_finite && bits >= fp16_overflow_bits<T>();
  counts.bf16_overflows += is_finite && bits >= bf16_overflow_bits<T>();
  counts.fp16_underflows += bits > 0 && bits <= fp16_underflow_bits<T>();
  counts.bf16_underflows += bits > 0 && bits <= bf16_underflow_bits<T>();
  if (!is_finite)
    return;
  sums.add(1, static_cast<double>(value) - centre, 0);
  const auto magnitude = static_cast<double>(__builtin_bit_cast(T, bits));
  part.range.join({magnitude, magnitude});
}

/// The histogram's bin of a value; -1 if it has none.
template <class T>
constexpr int bin_of(T value) {
  auto bits = magnitude_bits(value);
  if (bits == 0 || bits >= infinity_bits<T>)
    return -1;
  auto exponent =
    static_cast<int>(bits >> float_bits<T>::mantissa) - float_bits<T>::bias;
  if (sizeof(T) == sizeof(float) && exponent == -float_bits<T>::bias)
    for (exponent = -150; bits > 0; bits >>= 1)
      ++exponent;
  const auto bin = exponent + 150;
  return bin < 0 ? 0 : bin > 278 ? 278 : bin;
}

}  // namespace troupe
