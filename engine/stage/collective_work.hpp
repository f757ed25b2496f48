#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/shard_layout.hpp"
#include "troupe/engine/stage/update/tied_gradient.hpp"

namespace troupe {

/// Gradients of a member on their way to the other members and back.
struct member_gradients {
  /// One for each parameter, undefined where there is none. The result takes
  /// their place.
  tensor_list gradients;
  tensor_list parameters;  // or pieces of them: for shapes and dtypes
  /// Where only the device knows which gradients the result has, a row on it:
  /// for each parameter a number, not 0 if any member had a gradient.
  /// Undefined: the result's gradients are undefined where there is none.
  at::Tensor present = {};
};

/// The mean of a stage's gradients over replicas, those of copies added.
struct reduction : member_gradients {
  /// Members give the gradients of 16-bit parameters in fp32, not in the
  /// parameters' dtype.
  bool in_fp32 = false;
  /// The parameters without a gradient, ascending, which count as zeros. The
  /// reducer sets those that the member lacks, and in the result those that all
  /// members lack.
  std::vector<std::uint32_t> absent = {};

  /// The dtype in which members give the gradient of a parameter.
  at::ScalarType type_of(const at::Tensor& parameter) const {
    return in_fp32 ? widened(parameter.scalar_type()) : parameter.scalar_type();
  }
};

// With shards, the member of data rank d has shard d mod shards. Its group is
// the members of the same copy with the same d div shards, which together hold
// all shards.

/// Each member gets the mean.
struct all_reduce : reduction {};

/// Each member gets its shard of the mean: its pieces, each in one dimension.
struct reduce_scatter : reduction {
  row_layouts layouts = {};  // by row; the parameters are in the rows' order
};

/// Each member gets the shards of its group.
struct all_gather {
  tensor_list shards = {};  // of the member, by row
  tensor_list rows = {};    // are filled
  row_layouts layouts = {};
};

/// The stages of a replica and copy that hold tied parameters each get the sum
/// of their gradients; others stay as they are.
struct tied_sum : member_gradients {
  std::vector<tied_gradient> tied = {};  // by tie, then in model order
};

/// A member's part of a collective, which owns the tensors until it is done.
/// The members of a sum of tied gradients are the stages that hold them; those
/// of other collectives are the copies of a stage in all replicas.
using collective_work =
  std::variant<all_reduce, reduce_scatter, all_gather, tied_sum>;

/// The alternatives of `collective_work`, in their order.
enum class collective_kind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  tied_sum,
};

template <>
inline constexpr collective_kind largest_value<collective_kind> =
  collective_kind::tied_sum;

static_assert(
  std::variant_size_v<
    collective_work> == static_cast<std::size_t>(largest_value<collective_kind>) + 1);

inline collective_kind kind_of(const collective_work& work) {
  return static_cast<collective_kind>(work.index());
}

constexpr std::string_view to_text(collective_kind kind) {
  constexpr std::array names{
    "an all-reduce of gradients", "a reduce-scatter of gradients",
    "an all-gather of parameters", "a sum of tied gradients"};
  static_assert(names.size() == std::variant_size_v<collective_work>);
  return names[static_cast<std::size_t>(kind)];
}

/// The reduction that the work is; null: it is none.
reduction* reduction_of(collective_work& work);
/// The gradients of a reduction or sum; null: the work is a gather.
member_gradients* gradients_of(collective_work& work);

}  // namespace troupe
