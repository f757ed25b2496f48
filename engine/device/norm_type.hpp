#pragma once

#include <cstdint>

namespace troupe {

/// p of a p-norm: the p-th root of the sum of |value|^p; for infinity the
/// largest |value|.
enum class norm_type : std::uint8_t { infinity, one, two, three };

/// The parts that a p-norm is joined from, on CPUs and in kernels: of a value
/// its power, of several values the sum of powers (for infinity: the largest).
/// A NaN among them is the result.
template <norm_type Type>
struct norm_power {
  static constexpr double of(double value) {
    const double size = value < 0 ? -value : value;
    return Type == norm_type::two     ? value * value
           : Type == norm_type::three ? size * size * size
                                      : size;
  }
  static constexpr double joined(double a, double b) {
    if (Type != norm_type::infinity)
      return a + b;
    return b > a || b != b ? b : a;
  }
};

}  // namespace troupe
