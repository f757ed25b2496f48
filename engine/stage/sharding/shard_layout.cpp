#include "troupe/engine/stage/sharding/shard_layout.hpp"

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

constexpr std::int64_t aligned(std::int64_t elements) {
  constexpr auto alignment = shard_layout::alignment;
  return (elements + alignment - 1) / alignment * alignment;
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
  std::int64_t row = 0;
  for (const auto size : sizes_) {
    begins_.push_back(size > 0 ? row : 0);
    elements_ += size;
    extent_ = size > 0 ? row + size : extent_;
    row += aligned(size);
  }
  const auto unit = shards * multiple;
  length_ = (extent_ + unit - 1) / unit * multiple;
}

std::int64_t shard_layout::content(std::int32_t shard) const {
  return std::clamp(extent_ - begin(shard), std::int64_t{0}, length_);
}

std::vector<shard_layout::piece> shard_layout::pieces(
  std::int32_t shard) const {
  std::vector<piece> found;
  const auto first = begin(shard), last = first + content(shard);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto row = begins_[i];
    const auto from = std::max(first, row);
    const auto to = std::min(last, row + sizes_[i]);
    if (from < to)
      found.push_back({i, from - row, to - from, from});
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
