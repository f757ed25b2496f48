#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// A number of the remaining ops: `first(4)`, or `rest()`.
struct op_count {
  std::int32_t limit = 0;
};

constexpr op_count first(std::int32_t count) {
  return {std::max(count, 0)};
}

constexpr op_count rest() {
  return {INT32_MAX};
}

/// One of a rank's stages, counted from 0 (ascending, copy by copy):
/// `forward(chunk(1))` is the next forward of its second one.
struct chunk {
  constexpr explicit chunk(std::int32_t which) : number(which) {}
  std::int32_t number;
};

/// Sizes of `groups` groups of `total` microbatches; they differ by at most
/// one, larger ones first.
std::vector<std::int32_t> even_groups(std::int32_t total, std::int32_t groups);

/// Sizes of groups of `size` microbatches; the last one may be smaller.
std::vector<std::int32_t> groups_of(std::int32_t total, std::int32_t size);

/// Writes one rank's lane, from its first op to its last. The rank's forwards
/// and its backwards each have an order; `forward` and `backward` append the
/// next ones of it. With one stage per rank that order is by microbatch. With
/// several it goes group by group (`in_groups`; one group by default): every
/// stage of the rank runs the microbatches of a group, forwards with the stages
/// ascending, backwards descending. Slices of a microbatch ascend in forwards
/// and descend in backwards.
///
///   auto one_f_one_b = schedule::build(
///     {.ranks = 4, .microbatches = 16}, [](lane_builder& rank) {
///       rank.forward(first(rank.distance_to_last()));
///       rank.repeat_one_forward_one_backward();
///       rank.backward(rest());
///     });
///
/// Or write a lane by chunks: the rank's stages, ascending and copy by copy,
/// from 0. Then each chunk runs its microbatches in order. With two copies,
/// the first half of the microbatches takes copy 0.
///
/// Throws `error` (invalid_argument) for a chunk that the rank does not have,
/// for an op of a chunk that has none left, and for sizes that are out of
/// range.
class lane_builder {
 public:
  lane_builder(const placement& placement, std::int32_t microbatches,
               std::int32_t rank, std::int32_t slices = 1);

  std::int32_t rank() const { return rank_; }
  std::int32_t ranks() const { return ranks_; }
  std::int32_t microbatches() const { return microbatches_; }
  std::int32_t slices() const { return slices_; }
  std::int32_t stages_here() const {
    return static_cast<std::int32_t>(chunks_.size());
  }
  /// Ranks between this one and the last.
  std::int32_t distance_to_last() const { return ranks_ - 1 - rank_; }

  /// Sets the order of the remaining ops; call it before the first op. The
  /// sizes add up to the microbatches.
  void in_groups(const std::vector<std::int32_t>& sizes);
  /// Splits the backwards that follow: each is an I, then the oldest W that is
  /// due, if more than `lag` are. End the lane with `weight_backward(rest())`.
  void split_backwards(std::int32_t lag);

  void forward(op_count count);
  void backward(op_count count);
  /// The oldest W that are due.
  void weight_backward(op_count count);
  /// Forward, backward, forward, ... until no forward is left.
  void repeat_one_forward_one_backward();

  /// The next op of a chunk; throws if none is left.
  void forward(chunk which);
  void backward(chunk which);
  /// As many of a chunk's as are left.
  void forward(chunk which, op_count count);
  void backward(chunk which, op_count count);
  /// I; its W is due from then on.
  void input_backward(chunk which);
  /// An overlapped pair: a forward and a full backward.
  void overlap(chunk of_forward, chunk of_backward);
  /// Forwards of a chunk that are left.
  std::int32_t forwards_left(chunk which) const;

  /// Appends an op that the calls above can't express. Write a lane either with
  /// them or op by op.
  void place(op next);

  lane take() { return std::move(lane_); }

 private:
  struct chunk_state {
    std::int32_t stage = 0;
    std::int8_t copy = 0;
    std::int32_t next_forward = 0;
    std::int32_t next_backward = 0;
    std::int32_t end = 0;  // of its microbatches
  };

  std::size_t index_of(chunk which) const;
  op next_of(chunk which, op_kind kind);
  void append_backward(op what);

  std::int32_t rank_;
  std::int32_t ranks_;
  std::int32_t microbatches_;
  std::int32_t slices_;
  std::vector<chunk_state> chunks_;
  std::vector<op> forwards_;
  std::vector<op> backwards_;
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  bool split_ = false;
  std::size_t lag_ = 0;
  std::vector<op> due_;  // W, from next_due_
  std::size_t next_due_ = 0;
  lane lane_;
};

}  // namespace troupe
