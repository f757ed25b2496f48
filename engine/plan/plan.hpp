#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/schedules/schedule.hpp"
#include "troupe/schedules/stage_graph.hpp"

namespace troupe {

/// The first streams, on which ops take time one after the other; transfers
/// have others.
inline constexpr std::size_t clocked_streams = 4;

inline constexpr std::int32_t none = -1;

/// One op of the plan, identified by its index in `plan::ops`.
struct plan_op {
  plan_op_kind kind = plan_op_kind::forward;
  stream_kind stream = stream_kind::compute;
  std::int8_t copy = 0;
  bool overlaps_next = false;
  std::int16_t slice = 0;
  std::int32_t stage = 0;
  /// None for ops on whole stages, but with updates within a step: then the
  /// last microbatch of the update.
  std::int32_t microbatch = none;
  std::int32_t peer = none;            // of a transfer: the other stage
  std::int32_t message = none;         // for send and receive
  std::uint32_t first_dependency = 0;  // into plan::dependencies
  std::uint32_t dependency_count = 0;

  friend bool operator==(const plan_op&, const plan_op&) = default;
};

/// One tensor list that crosses ranks: a forward output, or a gradient.
/// `sequence` counts the messages of its channel from 0.
struct message {
  std::int32_t channel = 0;
  std::int32_t sequence = 0;
  std::uint32_t producer = 0;  // compute op
  std::uint32_t send = 0;
  std::uint32_t receive = 0;
  std::uint32_t consumer = 0;  // compute op

  friend bool operator==(const message&, const message&) = default;
};

/// A directed pair of ranks and a direction of travel; messages keep their
/// order within a channel. `credits` bounds the messages that are sent and not
/// yet consumed; `bound` is what the lanes alone guarantee, so sends never wait
/// if credits >= bound. Channels are ordered by (from, to, forward first); the
/// messages of a channel are adjacent in `plan::messages`, by sequence.
struct channel {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  bool backward = false;
  std::int32_t messages = 0;
  std::int32_t bound = 0;
  std::int32_t credits = 0;

  friend bool operator==(const channel&, const channel&) = default;
};

/// The compiled graph of one step, for every rank of one data replica. Flat
/// arrays; no pointers; copyable. Ops are ordered by rank, then as in the lane:
/// op indices of rank r are [first_op[r], first_op[r + 1]). A dependency is an
/// op of any rank that must have ended first. Every use of another op's result
/// is listed; the lane order of a rank's compute ops is implied. Index ranges
/// of dependencies may overlap: with `global_norm` all updates share the range
/// of all gradient norms.
struct plan {
  std::string schedule_name{};
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;
  bool training = true;
  bool global_norm = false;  // an update waits for the norm of all stages
  troupe::placement placement{};
  stage_graph graph{};
  update_rule update{};
  std::vector<std::uint32_t> first_op{};  // ranks + 1
  std::vector<plan_op> ops{};
  std::vector<std::uint32_t> dependencies{};
  std::vector<message> messages{};
  std::vector<channel> channels{};

  std::int32_t ranks() const { return placement.ranks; }
  std::int32_t stages() const { return placement.stages(); }
  std::span<const plan_op> lane(std::int32_t rank) const {
    const auto r = slot(rank);
    return std::span{ops}.subspan(first_op[r], first_op[r + 1] - first_op[r]);
  }
  /// The numbers of a rank's ops, in the same order.
  auto ops_of(std::int32_t rank) const {
    return std::views::iota(first_op[slot(rank)], first_op[slot(rank) + 1]);
  }
  std::span<const std::uint32_t> dependencies_of(const plan_op& op) const {
    return std::span{dependencies}.subspan(op.first_dependency,
                                           op.dependency_count);
  }
  /// The rank whose lane holds an op; O(log ranks).
  std::int32_t rank_of(std::uint32_t op) const {
    const auto next = std::upper_bound(first_op.begin(), first_op.end(), op);
    return static_cast<std::int32_t>(next - first_op.begin()) - 1;
  }

  friend bool operator==(const plan&, const plan&) = default;
};

using plan_pointer = std::shared_ptr<const plan>;

/// The order in which the ops of a rank start.
enum class lane_order : std::uint8_t {
  /// The lane's own.
  strict,
  /// A W, norm or update that can run overtakes ops that can't yet. F, B and I
  /// keep the lane's order: other ranks wait for what they make, and an op of
  /// those that overtook would delay it. Ops of one stage and kind keep the
  /// lane's order, so that gradients and losses are summed alike; so do
  /// transfers of one direction, and collectives. No more activations are kept
  /// at once than in the lane, in all and of each stage; outputs on their way
  /// to other ranks are not counted.
  ready_first,
  /// The same, and F, B and I overtake too. That helps where backwards are
  /// split and a rank is slow; elsewhere it is often slower than strict order.
  any_ready,
};

/// The number of each replica's microbatches in an update.
inline std::int32_t microbatches_of_update(const plan& plan) {
  return plan.update.every == 0 ? plan.microbatches : plan.update.every;
}

/// The stage, and which copy of it, that an op belongs to.
constexpr stage_instance instance_of(const plan_op& op) {
  return {op.stage, op.copy};
}

/// A schedule's op, in a plan.
constexpr plan_op to_plan_op(const op& what) {
  return {.kind = to_plan_kind(what.kind),
          .copy = what.copy,
          .overlaps_next = what.overlaps_next,
          .slice = what.slice,
          .stage = what.stage,
          .microbatch = what.microbatch};
}

/// The traits of an op; a transfer's direction is its stream's.
constexpr const op_traits& traits_of(const plan_op& what) {
  const auto* row = &traits_of(what.kind);
  return is_transfer(what.kind) && is_gradient(what.stream) ? *(row + 1) : *row;
}

/// An op of that kind, on its stream; `slice`: of a microbatch's.
constexpr plan_op op_of(plan_op_kind kind, stage_instance which,
                        std::int32_t microbatch = none,
                        std::int16_t slice = 0) {
  return {.kind = kind,
          .stream = traits_of(kind).stream,
          .copy = which.copy,
          .slice = slice,
          .stage = which.stage,
          .microbatch = microbatch};
}

/// An op's name in errors and texts, in PyTorch's spelling if it has one: 0F3,
/// 0SEND_F3, 1RECV_F3, 0UNSHARD, 0RESHARD, 0REDUCE_GRAD, 0NORM, 0UPDATE; with
/// the slice (0F3.1) and the copy (0F3@1) if there are any.
std::string to_text(const plan& plan, const plan_op& what);
std::string to_text(const plan& plan, std::uint32_t op);

}  // namespace troupe
