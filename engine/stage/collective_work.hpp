#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/shard_layout.hpp"
#include "troupe/engine/stage/update/tied_gradient.hpp"

namespace troupe {

/// What the members of a stage's group, its copies in all replicas, do
/// together; or, of a sum of tied gradients, the stages of a replica and copy
/// that hold tied parameters.
enum class collective_kind : std::uint8_t {
  all_reduce,      // gradients: each member gets the mean of all
  reduce_scatter,  // gradients: each member gets its shard of the mean
  all_gather,      // parameters: each member gets the shards of its group
  tied_sum,        // gradients of tied parameters: each holder gets the sum
};

template <>
inline constexpr collective_kind largest_value<collective_kind> =
  collective_kind::tied_sum;

constexpr std::string_view to_text(collective_kind kind) {
  constexpr std::array names{
    "an all-reduce of gradients", "a reduce-scatter of gradients",
    "an all-gather of parameters", "a sum of tied gradients"};
  return names[static_cast<std::size_t>(kind)];
}

/// A member's part of a collective, which owns the tensors until it is done.
/// With shards, the member of data rank d has shard d mod shards; its group are
/// the members of the same copy with the same d div shards, which hold all
/// shards.
struct collective_work {
  collective_kind kind = collective_kind::all_reduce;
  /// A reduction has the gradients by parameter, undefined where there is none;
  /// then, as `put_gradients` takes them, the result: by parameter, or by piece
  /// of the member's shard, each in one dimension. A sum has all gradients of
  /// the stage, of which the tied ones are replaced; a gather, the member's
  /// shards by row.
  tensor_list tensors;
  /// The parameters, or pieces, of a reduction or sum, for their shapes; the
  /// rows that a gather fills.
  tensor_list targets;
  /// By row; of a reduction those of trained parameters, whose order is the
  /// rows'. None for an all-reduce or a sum.
  row_layouts layouts = {};
  /// The holders of a sum, by tie, then in model order.
  std::vector<tied_gradient> tied = {};
  /// Members of a reduction give the gradients of 16-bit parameters in fp32,
  /// not in the parameters' dtype.
  bool in_fp32 = false;

  /// The dtype in which members give the gradient of a target.
  at::ScalarType type_of(const at::Tensor& target) const {
    return in_fp32 ? widened(target.scalar_type()) : target.scalar_type();
  }
};

}  // namespace troupe
