#pragma once

#include <cstdint>

#include "troupe/engine/device/vector_code.hpp"
#include "troupe/engine/events/statistics_kernels.hpp"

namespace troupe {

template <class T>
struct float_layout;

// Between the limits, sums and squares of a chunk stay within T's range.
template <>
struct float_layout<float> {
  using word = std::int32_t;
  static constexpr int mantissa = 23, bias = 127;
  static constexpr float largest = 0x1p56f, smallest = 0x1p-35f;
  static constexpr float smallest_squares = 0x1p-90f;
};

template <>
struct float_layout<double> {
  using word = std::int64_t;
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr double largest = 0x1p400, smallest = 0x1p-400;
  static constexpr double smallest_squares = 0x1p-850;
};

/// The code of statistics_kernels for floats or doubles, with vectors of that
/// many bytes. Only for the sources that hold kernels: each instantiates its
/// own number of bytes, and must not call an inline function that another
/// source could share, as the linker would keep one of them.
///
/// Sums run in 128 bytes of lanes whatever the vectors, for equal bits.
template <class T, int Bytes>
class chunk_code {
  using layout = float_layout<T>;
  using word = typename layout::word;
  using values = typename vector_of<T, Bytes>::type;
  using words = typename vector_of<word, Bytes>::type;

  static constexpr std::int64_t width = Bytes / sizeof(T);
  static constexpr std::int64_t lanes = 128 / sizeof(T);
  static constexpr int parts = 128 / Bytes;
  static constexpr std::int64_t bytes = sizeof(T);
  static constexpr word magnitude = ~(word{1} << (8 * sizeof(T) - 1));
  static constexpr word infinity = (word{2} * layout::bias + 1)
                                   << layout::mantissa;

  static constexpr word bits(T value) {
    return __builtin_bit_cast(word, value) & magnitude;
  }
  static constexpr T value_of(word bits) { return __builtin_bit_cast(T, bits); }

  // Halfway between fp16's (bf16's) largest value and the next power of two,
  // which rounds up; and half of its smallest, which rounds to zero.
  static constexpr word fp16_overflow = bits(T(65520));
  static constexpr word fp16_underflow = bits(T(0x1p-25));
  static constexpr word bf16_overflow = bits(T(0x1.ffp127));
  static constexpr word bf16_underflow = bits(T(0x1p-134));

  struct first_look {
    word largest = 0;
    word smallest = infinity;
    T sum = 0;
  };
  struct distances {
    T sum = 0;
    T squares = 0;
  };

  /// Uses all values unchanged.
  struct plain {
    words kept(words) const { return words{} - 1; }
    values scaled(values x) const { return x; }
  };
  /// Excludes non-finite values, and scales by a power of two.
  struct careful {
    T scale = 1;
    words kept(words u) const { return u < infinity; }
    values scaled(values x) const { return x * scale; }
  };

  static values load(const T* source) {
    values result;
    __builtin_memcpy(&result, source, sizeof result);
    return result;
  }
  static words magnitudes_of(values x) {
    return reinterpret_cast<words>(x) & magnitude;
  }

  /// Joins the lanes of a vector pairwise: first half with second half.
  template <class U, int Size, class Join>
  static U fold(typename vector_of<U, Size>::type x, Join join) {
    if constexpr (Size == sizeof(U)) {
      return x[0];
    } else {
      typename vector_of<U, Size / 2>::type halves[2];
      __builtin_memcpy(halves, &x, sizeof halves);
      return fold<U, Size / 2>(join(halves[0], halves[1]), join);
    }
  }

  static T total_of(values (&totals)[parts]) {
    for (auto half = parts / 2; half > 0; half /= 2)
      for (int p = 0; p < half; ++p)
        totals[p] += totals[p + half];
    return fold<T, Bytes>(totals[0], [](auto a, auto b) { return a + b; });
  }

  /// Calls `visit(part, values, present)` for all values, part by part; the
  /// last part is padded to all lanes. The words of `present` are all ones for
  /// values, and 0 for padding. Prefetches half of `next`.
  template <class Visit>
  static void for_each(const T* x, std::int64_t count, const char* next,
                       Visit visit) {
    const auto whole = count - count % lanes;
    for (std::int64_t i = 0; i < whole; i += lanes) {
      __builtin_prefetch(next + i * bytes / 2);
      for (int p = 0; p < parts; ++p)
        visit(p, load(x + i + p * width), words{} - 1);
    }
    if (whole == count)
      return;
    T rest[lanes];
    word present[lanes];
    for (std::int64_t i = 0; i < lanes; ++i) {
      const auto there = whole + i < count;
      rest[i] = there ? x[whole + i] : x[count - 1];
      present[i] = there ? -1 : 0;
    }
    for (int p = 0; p < parts; ++p) {
      words mask;
      __builtin_memcpy(&mask, present + p * width, sizeof mask);
      visit(p, load(rest + p * width), mask);
    }
  }

  static values masked(values x, words mask) {
    return reinterpret_cast<values>(reinterpret_cast<words>(x) & mask);
  }

  template <class Take>
  static first_look look(const T* x, std::int64_t count, const char* next,
                         Take take) {
    words most{}, least = most + infinity;
    values totals[parts]{};
    for_each(x, count, next, [&](int p, values v, words present) {
      const auto u = magnitudes_of(v);
      const auto kept = take.kept(u);
      const auto finite = u & kept;
      most = finite > most ? finite : most;
      least = u < least ? u : least;
      totals[p] += masked(take.scaled(v), kept & present);
    });
    const auto larger = [](auto a, auto b) { return a > b ? a : b; };
    const auto smaller = [](auto a, auto b) { return a < b ? a : b; };
    return {fold<word, Bytes>(most, larger), fold<word, Bytes>(least, smaller),
            total_of(totals)};
  }

  template <class Take>
  static distances distances_from(T mean, const T* x, std::int64_t count,
                                  const char* next, Take take) {
    values totals[parts]{}, squares[parts]{};
    for_each(x, count, next + count * bytes / 2,
             [&](int p, values v, words present) {
               const auto kept = take.kept(magnitudes_of(v)) & present;
               const auto d = masked(take.scaled(v) - mean, kept);
               totals[p] += d;
               squares[p] += d * d;
             });
    return {total_of(totals), total_of(squares)};
  }

  /// Counts the magnitudes that are at most each limit.
  template <int Limits>
  static void count_up_to(const word (&limits)[Limits], const T* x,
                          std::int64_t count, const char* next,
                          std::int64_t (&found)[Limits]) {
    words tallies[Limits]{};
    const auto whole = count - count % lanes;
    const auto* ahead = next + count * bytes;
    for (std::int64_t i = 0; i < whole; i += lanes, ahead += 48) {
      __builtin_prefetch(ahead, 0, 2);
      for (int p = 0; p < parts; ++p) {
        const auto u = magnitudes_of(load(x + i + p * width));
        for (int k = 0; k < Limits; ++k)
          if constexpr (Bytes == 64)  // one masked addition
            tallies[k] = u <= limits[k] ? tallies[k] + 1 : tallies[k];
          else
            tallies[k] -= u <= limits[k];
      }
    }
    for (int k = 0; k < Limits; ++k) {
      found[k] =
        fold<word, Bytes>(tallies[k], [](auto a, auto b) { return a + b; });
      for (auto i = whole; i < count; ++i)
        found[k] += bits(x[i]) <= limits[k];
    }
  }

  static void count_small(word smallest, const T* x, std::int64_t count,
                          const char* next, chunk_statistics& result) {
    std::int64_t found[2], tiny[1];
    count_up_to({0, fp16_underflow}, x, count, next, found);
    result.zeros = found[0];
    result.fp16_underflows = found[1] - found[0];
    if (result.fp16_underflows == 0 || smallest > bf16_underflow)
      return;
    count_up_to({bf16_underflow}, x, count, next, tiny);
    result.bf16_underflows = tiny[0] - found[0];
  }

  static void count_large(word largest, const T* x, std::int64_t count,
                          const char* next, chunk_statistics& result) {
    std::int64_t found[1];
    count_up_to({fp16_overflow - 1}, x, count, next, found);
    result.fp16_overflows = result.finite - found[0];
    if (largest < bf16_overflow)
      return;
    count_up_to({bf16_overflow - 1}, x, count, next, found);
    result.bf16_overflows = result.finite - found[0];
  }

  static void count_range(const first_look& seen, const T* x,
                          std::int64_t count, const char* next,
                          chunk_statistics& result) {
    result.max_abs = value_of(seen.largest);
    result.min_abs = value_of(seen.smallest);
    if (seen.smallest <= fp16_underflow)
      count_small(seen.smallest, x, count, next, result);
    if (seen.largest >= fp16_overflow)
      count_large(seen.largest, x, count, next, result);
  }

  static T mean_of(const first_look& seen, std::int64_t finite) {
    return static_cast<T>(static_cast<double>(seen.sum)
                          / static_cast<double>(finite));
  }

  /// Corrects for the rounding of the mean used for the distances.
  static void set_moments(T mean, const distances& found, double scale,
                          chunk_statistics& result) {
    const auto missed =
      static_cast<double>(found.sum) / static_cast<double>(result.finite);
    const auto squares = static_cast<double>(found.squares)
                         - missed * static_cast<double>(found.sum);
    result.mean = (static_cast<double>(mean) + missed) / scale;
    result.squares = squares > 0 ? squares / scale / scale : 0;
  }

  /// A power of two that brings values of that magnitude near one.
  static T scale_for(word largest) {
    const auto exponent = 2 * layout::bias - (largest >> layout::mantissa);
    const auto normal = exponent > 0 ? exponent : 1;
    return value_of((normal < 2 * layout::bias ? normal : 2 * layout::bias)
                    << layout::mantissa);
  }

  static chunk_statistics run_carefully(const T* x, std::int64_t count,
                                        const char* next) {
    std::int64_t found[2];
    count_up_to({infinity - 1, infinity}, x, count, next, found);
    chunk_statistics result;
    result.finite = found[0];
    result.infs = found[1] - found[0];
    result.nans = count - found[1];
    if (result.finite == 0)
      return result;
    auto seen = look(x, count, next, careful{});
    const careful take{scale_for(seen.largest)};
    seen = look(x, count, next, take);
    const auto mean = mean_of(seen, result.finite);
    const auto distances = distances_from(mean, x, count, next, take);
    set_moments(mean, distances, take.scale, result);
    count_range(seen, x, count, next, result);
    return result;
  }

 public:
  static chunk_statistics run(const T* x, std::int64_t count,
                              const void* behind) {
    const auto* next = static_cast<const char*>(behind);
    const auto seen = look(x, count, next, plain{});
    if (seen.largest > bits(layout::largest))
      return run_carefully(x, count, next);
    const auto mean = mean_of(seen, count);
    const auto found = distances_from(mean, x, count, next, plain{});
    if (seen.largest < bits(layout::smallest) && seen.largest > 0
        && found.squares < layout::smallest_squares)
      return run_carefully(x, count, next);
    chunk_statistics result;
    result.finite = count;
    set_moments(mean, found, 1, result);
    count_range(seen, x, count, next, result);
    return result;
  }

  /// Makes one pass, so each line prefetches one line: all of `behind`.
  static chunk_statistics run_extremes(const T* x, std::int64_t count,
                                       const void* behind) {
    const auto* next = static_cast<const char*>(behind);
    const auto* half = next + count * bytes / 2;
    words most{}, least = most + infinity;
    for_each(x, count, next, [&](int p, values v, words) {
      if (p == 0)
        __builtin_prefetch(half += 64);
      const auto u = magnitudes_of(v);
      most = u > most ? u : most;
      least = u < least ? u : least;
    });
    const auto largest =
      fold<word, Bytes>(most, [](auto a, auto b) { return a > b ? a : b; });
    if (largest >= infinity)
      return run_carefully(x, count, next);
    chunk_statistics result;
    result.finite = count;
    result.max_abs = value_of(largest);
    result.min_abs = value_of(
      fold<word, Bytes>(least, [](auto a, auto b) { return a < b ? a : b; }));
    return result;
  }
};

/// Widens 16-bit floats to fp32: loops that compilers vectorise. Bytes only
/// distinguishes one instruction set's code from another's.
template <int Bytes>
struct widen_code {
  static void bfloat16(const std::uint16_t* source, float* target,
                       std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      target[i] = __builtin_bit_cast(float, std::uint32_t{source[i]} << 16);
  }

  static void half(const std::uint16_t* source, float* target,
                   std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i)
      target[i] = widened_half(source[i]);
  }

 private:
  /// Treats denormals as 1.f x 2^-14 - 2^-14, which avoids fp32 denormals.
  static float widened_half(std::int32_t bits) {
    constexpr std::int32_t rebias = 112 << 23, exponents = 0x1f << 23;
    const auto low = (bits & 0x7fff) << 13;
    const auto normal = low + rebias;
    const auto tiny = __builtin_bit_cast(
      std::int32_t, __builtin_bit_cast(float, normal + (1 << 23)) - 0x1p-14f);
    const auto finite = low < 1 << 23 ? tiny : normal;
    const auto wide = low >= exponents ? normal + rebias : finite;
    return __builtin_bit_cast(float, wide | (bits & 0x8000) << 16);
  }
};

/// Kernels with vectors of that many bytes.
template <int Bytes>
constexpr statistics_kernels kernels_of(const char* instruction_set) {
  using widen = widen_code<Bytes>;
  using floats = chunk_code<float, Bytes>;
  using doubles = chunk_code<double, Bytes>;
  return {instruction_set,      floats::run,           doubles::run,
          floats::run_extremes, doubles::run_extremes, widen::half,
          widen::bfloat16};
}

}  // namespace troupe
