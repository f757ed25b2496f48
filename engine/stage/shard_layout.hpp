#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

/// How parameters of a stage, flattened into a row where each begins at a
/// multiple of `alignment`, are cut into shards, whose elements are a multiple
/// of `multiple`: into equal shards, as XLA's FSDP cuts a flat parameter, or
/// between parameters (`of_whole`). Counts are elements.
class shard_layout {
 public:
  /// The alignment of parameters in a row, and of cuts if `multiple` is a
  /// multiple of it: LibTorch's optimizers round whole vectors and the rest of
  /// a tensor in different ways, so that otherwise bits would depend on the
  /// shards.
  static constexpr std::int64_t alignment = 32;

  /// A part of a parameter that a shard holds.
  struct piece {
    std::size_t parameter = 0;
    std::int64_t begin = 0;  // within the flattened parameter
    std::int64_t count = 0;
    std::int64_t row = 0;      // where it begins in the row
    bool keeps_shape = false;  // the whole parameter, of a layout of_whole

    friend bool operator==(const piece&, const piece&) = default;
  };

  /// `sizes`: elements of each parameter. Throws `invalid_argument` without a
  /// shard, or for a multiple below 1.
  shard_layout(std::vector<std::int64_t> sizes, std::int32_t shards,
               std::int64_t multiple = 128);

  /// Puts each parameter into one shard, for updates that read whole
  /// parameters. `work`: that of each parameter's update, in any unit; it is
  /// balanced over the shards (the largest first, each to the shard that has
  /// the least: Graham, 1969). Of equal shards the first from `preferred` on is
  /// taken. Throws as the constructor.
  static shard_layout of_whole(std::vector<std::int64_t> sizes,
                               const std::vector<double>& work,
                               std::int32_t shards, std::int64_t multiple = 128,
                               std::int32_t preferred = 0);

  std::int32_t shards() const {
    return static_cast<std::int32_t>(cuts_.size()) - 1;
  }
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  /// The begin of each parameter in the row; 0 for those without an element.
  const std::vector<std::int64_t>& begins() const { return begins_; }
  /// The elements of a shard, padding included.
  std::int64_t length(std::int32_t shard) const {
    return begin(shard + 1) - begin(shard);
  }
  bool has_equal_shards() const;
  std::int64_t elements() const { return elements_; }
  std::int64_t padded() const { return cuts_.back(); }
  /// The begin of a shard in the row.
  std::int64_t begin(std::int32_t shard) const {
    return cuts_.at(static_cast<std::size_t>(shard));
  }
  /// The elements of a shard without the padding at its end.
  std::int64_t content(std::int32_t shard) const {
    return contents_.at(static_cast<std::size_t>(shard));
  }
  /// The parts of parameters in a shard, in the row's order; parameters without
  /// an element have none.
  std::vector<piece> pieces(std::int32_t shard) const;

 private:
  shard_layout() = default;
  void find_contents();

  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> begins_;    // in the row
  std::vector<std::int64_t> cuts_;      // where shards begin, and the row ends
  std::vector<std::int64_t> contents_;  // of shards
  std::int64_t elements_ = 0;
  bool cuts_parameters_ = true;
};

/// Several rows that are cut alike.
using row_layouts = std::vector<std::shared_ptr<const shard_layout>>;

/// The pieces of a shard of all rows, row by row; parameters count on from one
/// row to the next.
std::vector<shard_layout::piece> pieces_of(const row_layouts& rows,
                                           std::int32_t shard);

}  // namespace troupe
