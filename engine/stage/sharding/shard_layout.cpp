#include "troupe/engine/stage/sharding/shard_layout.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

constexpr std::int64_t aligned(std::int64_t elements) {
  constexpr auto alignment = shard_layout::alignment;
  return (elements + alignment - 1) / alignment * alignment;
}

/// Up to the end of the last parameter that has an element.
std::int64_t extent_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t row = 0, extent = 0;
  for (const auto size : sizes) {
    if (size > 0)
      extent = row + size;
    row += aligned(size);
  }
  return extent;
}

}  // namespace

shard_layout::shard_layout(std::vector<std::int64_t> sizes, std::int32_t shards,
                           std::int64_t multiple)
  : sizes_(std::move(sizes)), shards_(shards) {
  if (shards < 1 || multiple < 1)
    fail(error_code::invalid_argument,
         "parameters are cut into {} shards of a multiple of {} elements; both "
         "must be 1 or more",
         shards, multiple);
  elements_ = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
  const auto unit = shards * multiple;
  length_ = (extent_of(sizes_) + unit - 1) / unit * multiple;
}

std::int64_t shard_layout::content(std::int32_t shard) const {
  return std::clamp(extent_of(sizes_) - begin(shard), std::int64_t{0}, length_);
}

std::vector<shard_layout::piece> shard_layout::pieces(
  std::int32_t shard) const {
  std::vector<piece> found;
  const auto first = begin(shard), last = first + content(shard);
  std::int64_t row = 0;  // where the parameter begins
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto from = std::max(first, row);
    const auto to = std::min(last, row + sizes_[i]);
    if (from < to)
      found.push_back({i, from - row, to - from, from});
    row += aligned(sizes_[i]);
  }
  return found;
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
