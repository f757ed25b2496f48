#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// What earlier positions of a batch of sequences leave for later ones, where
/// no gradient is wanted (keys and values): for each call of
/// `with_earlier_slices` one buffer, so that a new position is written behind
/// those before instead of copying them all. Buffers grow geometrically.
/// Dimension 0 of the tensors counts the batch's rows. One thread at a time.
class position_cache {
 public:
  /// Writes a call's tensor behind the earlier ones along a dimension, and
  /// returns all of them: a view, whose values stay until `keep_rows`. Throws
  /// `invalid_argument` for a tensor that differs from those before in another
  /// dimension or in its type.
  at::Tensor append(std::size_t call, const at::Tensor& own,
                    std::int64_t dimension);
  /// Drops all rows but these, ascending.
  void keep_rows(const std::vector<std::int64_t>& rows);

  std::size_t calls() const { return buffers_.size(); }
  /// Bytes of all buffers, also of what is not written yet.
  std::int64_t bytes() const;

 private:
  struct buffer {
    at::Tensor whole;
    std::int64_t used = 0;  // along `dimension`
    std::int64_t dimension = 0;
  };
  static void grow(buffer& target, const at::Tensor& own, std::int64_t needed);

  std::vector<buffer> buffers_;  // by call
};

}  // namespace troupe
