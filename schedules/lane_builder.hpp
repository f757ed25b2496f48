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
/// ascending, backwards descending.
///
///   auto one_f_one_b = schedule::build(
///     {.ranks = 4, .microbatches = 16}, [](lane_builder& rank) {
///       rank.forward(first(rank.distance_to_last()));
///       rank.repeat_one_forward_one_backward();
///       rank.backward(rest());
///     });
class lane_builder {
 public:
  lane_builder(const placement& placement, std::int32_t microbatches,
               std::int32_t rank);

  std::int32_t rank() const { return rank_; }
  std::int32_t ranks() const { return ranks_; }
  std::int32_t microbatches() const { return microbatches_; }
  std::int32_t stages_here() const {
    return static_cast<std::int32_t>(stages_.size());
  }
  /// Ranks between this one and the last.
  std::int32_t distance_to_last() const { return ranks_ - 1 - rank_; }

  /// Sets the order of the remaining ops; call it before the first op.
  void in_groups(const std::vector<std::int32_t>& sizes);

  void forward(op_count count);
  void backward(op_count count);
  /// Forward, backward, forward, ... until no forward is left.
  void repeat_one_forward_one_backward();
  /// Appends an op that the calls above can't express. Write a lane either with
  /// them or op by op.
  void place(op next);

  lane take() { return std::move(lane_); }

 private:
  void append(const std::vector<op>& order, std::size_t& next, op_count count);

  std::int32_t rank_;
  std::int32_t ranks_;
  std::int32_t microbatches_;
  std::vector<std::int32_t> stages_;
  std::vector<op> forwards_;
  std::vector<op> backwards_;
  std::size_t next_forward_ = 0;
  std::size_t next_backward_ = 0;
  lane lane_;
};

}  // namespace troupe
