#include "troupe/engine/data/permutation.hpp"

#include <bit>

namespace troupe {

std::uint64_t mix_bits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

permutation::permutation(std::int64_t size, std::uint64_t seed)
  : size_(static_cast<std::uint64_t>(size)),
    seed_(seed),
    half_bits_((static_cast<unsigned>(std::bit_width(size_ | 1)) + 1) / 2) {}

std::int64_t permutation::operator()(std::int64_t index) const {
  const auto mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(index);
  do {
    auto left = value >> half_bits_;
    auto right = value & mask;
    for (std::uint64_t round = 0; round < 4; ++round) {
      const auto next =
        left ^ (mix_bits(right ^ mix_bits(seed_ + round)) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace troupe
