#include "troupe/engine/data/row_order.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

/// Whole rows by weight; what rounding leaves goes to the largest remainders.
std::vector<std::int64_t> shares_of(const std::vector<double>& weights) {
  const auto total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t s = 0; s < weights.size(); ++s) {
    const auto exact = weights[s] / total * row_mixture::block;
    shares.push_back(static_cast<std::int64_t>(exact));
    remainders.emplace_back(static_cast<double>(shares[s]) - exact, s);
  }
  std::ranges::sort(remainders);
  const auto left =
    row_mixture::block
    - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (std::int64_t i = 0; i < left; ++i)
    ++shares[remainders[static_cast<std::size_t>(i)].second];
  return shares;
}

}  // namespace

row_mixture::row_mixture(const std::vector<double>& weights) {
  if (weights.empty())
    fail(error_code::invalid_argument, "a mixture needs a source");
  for (const auto weight : weights)
    if (!(weight > 0) || !std::isfinite(weight))
      fail(error_code::invalid_argument,
           "a source's weight is {}; use a number above 0", weight);
  if (!std::isfinite(std::accumulate(weights.begin(), weights.end(), 0.0)))
    throw error(
      error_code::invalid_argument,
      "the sum of the sources' weights is too large; use smaller ones");
  shares_ = shares_of(weights);
  for (std::size_t s = 0; s < weights.size(); ++s)
    if (shares_[s] == 0)
      fail(error_code::invalid_argument,
           "the weight {} is less than one row of {}; omit the source, or give "
           "it more",
           weights[s], block);
  // Next comes the source that is furthest behind its share.
  std::vector<std::int64_t> counts(weights.size(), 0);
  for (std::int64_t row = 0; row < block; ++row) {
    std::size_t next = 0;
    for (std::size_t s = 1; s < counts.size(); ++s)
      if ((2 * counts[s] + 1) * shares_[next]
          < (2 * counts[next] + 1) * shares_[s])
        next = s;
    places_.push_back({next, counts[next]++});
  }
}

row_mixture::place row_mixture::of(std::int64_t row) const {
  auto found = places_[static_cast<std::size_t>(row % block)];
  found.row += row / block * shares_[found.source];
  return found;
}

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
