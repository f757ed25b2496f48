#include "troupe/engine/events/log2_counter.hpp"

#include <algorithm>
#include <bit>

namespace troupe {
namespace {

std::uint32_t magnitude(float value) {
  return std::bit_cast<std::uint32_t>(value) & 0x7fffffff;
}

}  // namespace

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

}  // namespace troupe
