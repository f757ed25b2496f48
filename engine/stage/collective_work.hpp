#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/shard_layout.hpp"

namespace troupe {

/// What the members of a stage's group, its copies in all replicas, do
/// together.
enum class collective_kind : std::uint8_t {
  all_reduce,      // gradients: each member gets the mean of all
  reduce_scatter,  // gradients: each member gets its shard of the mean
  all_gather,      // parameters: each member gets the shards of its group
};

template <>
inline constexpr collective_kind largest_value<collective_kind> =
  collective_kind::all_gather;

constexpr std::string_view to_text(collective_kind kind) {
  switch (kind) {
    case collective_kind::all_reduce:
      return "an all-reduce of gradients";
    case collective_kind::reduce_scatter:
      return "a reduce-scatter of gradients";
    case collective_kind::all_gather:
      break;
  }
  return "an all-gather of parameters";
}

/// A member's part of a collective, which owns the tensors until it is done.
/// With shards, the member of data rank d has shard d mod shards; its group are
/// the members of the same copy with the same d div shards, which hold all
/// shards.
struct collective_work {
  collective_kind kind = collective_kind::all_reduce;
  /// Of a reduction: the gradients by parameter, undefined where there is none;
  /// then, as `put_gradients` takes them, the result: by parameter, or of the
  /// pieces of the member's shard, each in one dimension. Of a gather: the
  /// member's shards by row.
  tensor_list tensors;
  /// Of a reduction: the parameters, for their shapes. Of a gather: the rows to
  /// fill.
  tensor_list targets;
  /// By row; a reduction uses the first. None for an all-reduce.
  std::vector<std::shared_ptr<const shard_layout>> layouts = {};
};

}  // namespace troupe
