#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// How the parameters of a stage, flattened into a row where each begins at a
/// multiple of `alignment`, are cut into equal shards, as XLA's FSDP cuts a
/// flat parameter: the row is padded to a multiple of shards x `multiple`
/// elements, and shard r is [r length, (r + 1) length). Counts are elements.
class shard_layout {
 public:
  /// Of the parameters in a row, and of the cuts if `multiple` is a multiple of
  /// it: LibTorch's optimizers round whole vectors and the rest of a tensor in
  /// different ways, so that otherwise bits would depend on the shards.
  static constexpr std::int64_t alignment = 32;

  /// A part of a parameter that a shard holds.
  struct piece {
    std::size_t parameter = 0;
    std::int64_t begin = 0;  // within the flattened parameter
    std::int64_t count = 0;
    std::int64_t row = 0;  // where it begins in the row

    friend bool operator==(const piece&, const piece&) = default;
  };

  /// `sizes`: elements of each parameter. Throws `invalid_argument` without a
  /// shard, or for a multiple below 1.
  shard_layout(std::vector<std::int64_t> sizes, std::int32_t shards,
               std::int64_t multiple = 128);

  std::int32_t shards() const { return shards_; }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// Where each parameter begins in the row; 0 for those without an element.
  const std::vector<std::int64_t>& begins() const { return begins_; }
  std::int64_t length() const { return length_; }  // of a shard
  std::int64_t elements() const { return elements_; }
  std::int64_t padded() const { return length_ * shards_; }
  /// Where a shard begins in the row, and its elements without the padding.
  std::int64_t begin(std::int32_t shard) const { return length_ * shard; }
  std::int64_t content(std::int32_t shard) const;
  /// The parts of parameters in a shard, in the row's order; parameters without
  /// an element have none.
  std::vector<piece> pieces(std::int32_t shard) const;

 private:
  std::vector<std::int64_t> sizes_;
  std::int32_t shards_;
  std::vector<std::int64_t> begins_;  // in the row
  std::int64_t extent_ = 0;  // to the end of the last parameter with an element
  std::int64_t elements_ = 0;
  std::int64_t length_ = 0;
};

/// Several rows that are cut alike.
using row_layouts = std::vector<std::shared_ptr<const shard_layout>>;

/// The pieces of a shard of all rows, row by row; parameters count on from one
/// row to the next.
std::vector<shard_layout::piece> pieces_of(const row_layouts& rows,
                                           std::int32_t shard);

}  // namespace troupe
