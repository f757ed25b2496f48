#pragma once

#include <cstdint>
#include <utility>

namespace troupe {

/// Bits of a bfloat16.
struct bf16_bits {
  std::uint16_t bits;
};

template <class T, int Bytes>
struct vector_of {
  typedef T type __attribute__((vector_size(Bytes)));
};

/// Arithmetic with vectors of that many bytes, for kernels. Only for the
/// sources that hold kernels: each instantiates its own number of bytes, and
/// must not call an inline function that another source could share, as the
/// linker would keep one of them.
template <int Bytes>
class vector_code {
 public:
  using size = std::int64_t;
  using values = typename vector_of<float, Bytes>::type;
  using words = typename vector_of<std::int32_t, Bytes>::type;
  using unsigned_words = typename vector_of<std::uint32_t, Bytes>::type;
  using halves = typename vector_of<std::uint16_t, Bytes / 2>::type;

  static constexpr size lanes = Bytes / 4;
  static constexpr size panel = 2 * lanes;
  static constexpr int tile = Bytes == 64 ? 8 : 4;  // rows of a product

  static size round_up(size n, size to) { return (n + to - 1) / to * to; }
  static size least(size a, size b) { return a < b ? a : b; }
  static size most(size a, size b) { return a > b ? a : b; }

  static values load(const float* source) {
    values result;
    __builtin_memcpy(&result, source, sizeof result);
    return result;
  }
  static void store(float* target, values x) {
    __builtin_memcpy(target, &x, sizeof x);
  }
  static values load(const bf16_bits* source) {
    halves bits;
    __builtin_memcpy(&bits, source, sizeof bits);
    return reinterpret_cast<values>(__builtin_convertvector(bits, words) << 16);
  }
  /// Rounds to the nearest, halves to even.
  static void store(bf16_bits* target, values x) {
    const auto bits = reinterpret_cast<unsigned_words>(x);
    const auto rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    const auto is_number = reinterpret_cast<unsigned_words>(x == x);
    const auto result = __builtin_convertvector(
      (rounded & is_number) | (0x7FC0 & ~is_number), halves);
    __builtin_memcpy(target, &result, sizeof result);
  }
  static values select(words mask, values a, values b) { return mask ? a : b; }

  /// e^x of x <= 88, within 2 units of the last place; 0 below -87.
  static values exponential(values x) {
    const values shifted = shifted_exponent(x);
    return exponential_of_parts(x, shifted, reduced(x, shifted));
  }

  /// e^(x + rest) of a rest of at most 0.1, which x has no bits for.
  static values exponential(values x, values rest) {
    const values shifted = shifted_exponent(x);
    return exponential_of_parts(x, shifted, reduced(x, shifted) + rest);
  }

  static float sum_of(values x) {
    float total = 0;
    for (size i = 0; i < lanes; ++i)
      total += x[i];
    return total;
  }

  /// The same by halves, which takes less time.
  static float total_of(values x) {
    if constexpr (Bytes == 64)
      return total_of_eight(
        __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
        + __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15));
    else if constexpr (Bytes == 32)
      return total_of_eight(x);
    else
      return total_of_four(x);
  }

  /// The factor whose elements are broadcast: row i has a[i * row + p * step].
  struct broadcast {
    const float* data;
    size row, step;
  };
  /// The factor that is read in vectors: row p begins at data + p * step.
  struct streamed {
    const float* data;
    size step;
  };

  /// `tile` rows of sums of products over p < count, in vectors of columns;
  /// to be set, or to be added to what is in `sums`.
  template <int Vectors, int... Rows>
  static void multiply(broadcast a, streamed b, size count, float* sums,
                       size row, bool adds,
                       std::integer_sequence<int, Rows...>) {
    values left[tile], right[tile];
    const auto begin = [&](int i) {
      left[i] = adds ? load(sums + i * row) : values{};
      right[i] = adds && Vectors == 2 ? load(sums + i * row + lanes) : values{};
    };
    (begin(Rows), ...);
    for (size p = 0; p < count; ++p) {
      const auto first = load(b.data + p * b.step);
      const auto second =
        Vectors == 2 ? load(b.data + p * b.step + lanes) : values{};
      const auto add = [&](int i) {
        const float x = a.data[i * a.row + p * a.step];
        left[i] += x * first;
        if constexpr (Vectors == 2)
          right[i] += x * second;
      };
      (add(Rows), ...);
    }
    const auto end = [&](int i) {
      store(sums + i * row, left[i]);
      if constexpr (Vectors == 2)
        store(sums + i * row + lanes, right[i]);
    };
    (end(Rows), ...);
  }

  /// The same for columns that are a multiple of a vector.
  static void multiply(broadcast a, streamed b, size count, float* sums,
                       size row, size columns, bool adds) {
    constexpr auto rows = std::make_integer_sequence<int, tile>();
    size j = 0;
    for (; j + panel <= columns; j += panel)
      multiply<2>(a, {b.data + j, b.step}, count, sums + j, row, adds, rows);
    if (j < columns)
      multiply<1>(a, {b.data + j, b.step}, count, sums + j, row, adds, rows);
  }

  static float read(float value) { return value; }
  static float read(bf16_bits value) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits)
                                       << 16);
  }
  static void set(float& target, float value) { target = value; }
  /// Rounds to the nearest, halves to even.
  static void set(bf16_bits& target, float value) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    const auto rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
    target.bits = static_cast<std::uint16_t>(value == value ? rounded : 0x7FC0);
  }

 private:
  using four = typename vector_of<float, 16>::type;
  using eight = typename vector_of<float, 32>::type;

  static float total_of_eight(eight x) {
    return total_of_four(__builtin_shufflevector(x, x, 0, 1, 2, 3)
                         + __builtin_shufflevector(x, x, 4, 5, 6, 7));
  }
  static float total_of_four(four x) {
    const four pairs = x + __builtin_shufflevector(x, x, 2, 3, 0, 1);
    return pairs[0] + pairs[1];
  }

  static constexpr float rounding = 0x1.8p23f;

  /// x / ln 2 as an integer, in the last bits.
  static values shifted_exponent(values x) {
    return x * 1.44269504f + rounding;
  }
  /// x less a multiple of ln 2, which is subtracted in two parts (Cephes).
  static values reduced(values x, values shifted) {
    const values n = shifted - rounding;
    return (x - n * 0.693359375f) + n * 2.12194440e-4f;
  }
  /// The power of e by a polynomial, whose parts don't wait for each other;
  /// that of 2 by its bits.
  static values exponential_of_parts(values x, values shifted, values r) {
    const values square = r * r;
    const values first = r * 1.66664973e-1f + 4.99999911e-1f;
    const values last =
      square * 1.38088467e-3f + (r * 8.37149564e-3f + 4.16686684e-2f);
    const values y = (last * square + first) * square + (r + 1.0f);
    const words scaled =
      reinterpret_cast<words>(y) + (reinterpret_cast<words>(shifted) << 23);
    return select(x < -87.0f, values{}, reinterpret_cast<values>(scaled));
  }
};

}  // namespace troupe
