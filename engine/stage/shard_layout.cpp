#include "troupe/engine/stage/shard_layout.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

constexpr std::int64_t rounded_up(std::int64_t elements, std::int64_t unit) {
  return (elements + unit - 1) / unit * unit;
}

constexpr std::int64_t aligned(std::int64_t elements) {
  return rounded_up(elements, shard_layout::alignment);
}

void require_legal(std::int32_t shards, std::int64_t multiple) {
  if (shards < 1 || multiple < 1)
    fail(error_code::invalid_argument,
         "parameters are cut into {} shards of a multiple of {} elements; both "
         "must be 1 or more",
         shards, multiple);
}

/// The parameters of each shard, ascending.
std::vector<std::vector<std::size_t>> balance(const std::vector<double>& work,
                                              std::int32_t shards,
                                              std::int32_t preferred) {
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater{},
                           [&](std::size_t i) { return work[i]; });
  const auto count = static_cast<std::size_t>(shards);
  std::vector<double> sums(count, 0);
  std::vector<std::vector<std::size_t>> by_shard(count);
  for (const auto parameter : order) {
    const auto first = static_cast<std::size_t>(preferred) % count;
    auto least = first;
    for (std::size_t i = 1; i < count; ++i)
      if (const auto q = (first + i) % count; sums[q] < sums[least])
        least = q;
    sums[least] += work[parameter];
    by_shard[least].push_back(parameter);
  }
  for (auto& parameters : by_shard)
    std::ranges::sort(parameters);
  return by_shard;
}

}  // namespace

shard_layout::shard_layout(std::vector<std::int64_t> sizes, std::int32_t shards,
                           std::int64_t multiple)
  : sizes_(std::move(sizes)) {
  require_legal(shards, multiple);
  std::int64_t row = 0;
  std::int64_t extent = 0;  // to the end of the last parameter with an element
  for (const auto size : sizes_) {
    begins_.push_back(size > 0 ? row : 0);
    elements_ += size;
    extent = size > 0 ? row + size : extent;
    row += aligned(size);
  }
  const auto length = rounded_up(extent, shards * multiple) / shards;
  for (std::int32_t shard = 0; shard <= shards; ++shard)
    cuts_.push_back(length * shard);
  find_contents();
}

shard_layout shard_layout::of_whole(std::vector<std::int64_t> sizes,
                                    const std::vector<double>& work,
                                    std::int32_t shards, std::int64_t multiple,
                                    std::int32_t preferred) {
  require_legal(shards, multiple);
  shard_layout layout;
  layout.cuts_parameters_ = false;
  layout.sizes_ = std::move(sizes);
  layout.begins_.resize(layout.sizes_.size());
  layout.cuts_ = {0};
  for (const auto& parameters : balance(work, shards, preferred)) {
    auto row = layout.cuts_.back();
    for (const auto i : parameters) {
      const auto size = layout.sizes_.at(i);
      layout.begins_[i] = size > 0 ? row : 0;
      layout.elements_ += size;
      row += aligned(size);
    }
    const auto unit = std::lcm(multiple, alignment);
    layout.cuts_.push_back(rounded_up(row, unit));
  }
  layout.find_contents();
  return layout;
}

bool shard_layout::has_equal_shards() const {
  for (std::int32_t shard = 1; shard < shards(); ++shard)
    if (length(shard) != length(0))
      return false;
  return true;
}

void shard_layout::find_contents() {
  for (std::int32_t shard = 0; shard < shards(); ++shard) {
    const auto all = pieces(shard);
    contents_.push_back(
      all.empty() ? 0 : all.back().row + all.back().count - begin(shard));
  }
}

std::vector<shard_layout::piece> shard_layout::pieces(
  std::int32_t shard) const {
  std::vector<piece> parts;
  const auto first = begin(shard), last = begin(shard + 1);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto row = begins_[i];
    const auto from = std::max(first, row);
    const auto to = std::min(last, row + sizes_[i]);
    if (from < to)
      parts.push_back({i, from - row, to - from, from, !cuts_parameters_});
  }
  return parts;
}

std::vector<shard_layout::piece> pieces_of(const row_layouts& rows,
                                           std::int32_t shard) {
  std::vector<shard_layout::piece> all;
  std::size_t first = 0;  // parameter of the row
  for (const auto& row : rows) {
    for (auto piece : row->pieces(shard)) {
      piece.parameter += first;
      all.push_back(piece);
    }
    first += row->sizes().size();
  }
  return all;
}

}  // namespace troupe
