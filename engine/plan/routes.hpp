#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Whether a result that `stage` gives to `other` leaves its rank.
inline bool crosses(const placement& placement, std::int32_t stage,
                    std::int32_t other, std::int8_t copy) {
  return placement.rank_of(stage, copy) != placement.rank_of(other, copy);
}

/// The stage that a transfer of a chain has at its other end.
constexpr std::int32_t chain_peer(const plan_op& transfer) {
  const bool upwards = transfer.stream == stream_kind::send_forward
                       || transfer.stream == stream_kind::receive_backward;
  return transfer.stage + (upwards ? 1 : -1);
}

/// The other half of a message: what a send's peer receives, or a receive's
/// sends.
constexpr plan_op other_half(const plan_op& transfer) {
  auto other = transfer;
  const bool backward = is_gradient(transfer.stream);
  const bool sends = transfer.kind == plan_op_kind::send;
  other.kind = sends ? plan_op_kind::receive : plan_op_kind::send;
  other.stream =
    sends ? (backward ? stream_kind::receive_backward
                      : stream_kind::receive_forward)
          : (backward ? stream_kind::send_backward : stream_kind::send_forward);
  other.stage = transfer.peer;
  other.peer = transfer.stage;
  return other;
}

/// A compute op's transfer to or from a stage.
constexpr plan_op transfer_of(const plan_op& compute, plan_op_kind kind,
                              bool backward, std::int32_t peer) {
  plan_op transfer{.kind = kind,
                   .copy = compute.copy,
                   .slice = compute.slice,
                   .stage = compute.stage,
                   .microbatch = compute.microbatch,
                   .peer = peer};
  const bool sends = kind == plan_op_kind::send;
  transfer.stream =
    sends ? (backward ? stream_kind::send_backward : stream_kind::send_forward)
          : (backward ? stream_kind::receive_backward
                      : stream_kind::receive_forward);
  return transfer;
}

/// Places of the messages of a plan's edges in tables: by copy, edge that
/// leaves its rank in this copy, microbatch that takes this copy, and slice.
/// The plan's compute ops are a legal step (`validate`).
class edge_slots {
 public:
  explicit edge_slots(const plan& plan);

  /// The number of messages of a direction.
  std::size_t size() const { return size_; }
  /// Whether the op is of the copy that its microbatch takes.
  bool has(const plan_op& op) const {
    return places_[static_cast<std::size_t>(op.microbatch)].copy == op.copy;
  }
  /// Of an edge between different ranks, and an op that it has.
  std::size_t operator()(std::int32_t edge, const plan_op& op) const {
    return first_[static_cast<std::size_t>(op.copy) * edges_
                  + static_cast<std::size_t>(edge)]
           + places_[static_cast<std::size_t>(op.microbatch)].number * slices_
           + static_cast<std::size_t>(op.slice);
  }

 private:
  struct place {
    std::size_t number = 0;  // among the microbatches of its copy
    std::int8_t copy = none;
  };

  /// Places the microbatches; returns how many take each copy.
  std::vector<std::size_t> take_places(const plan& plan);

  std::size_t slices_;
  std::size_t edges_;
  std::size_t size_ = 0;
  std::vector<place> places_;       // by microbatch
  std::vector<std::size_t> first_;  // by copy and edge
};

/// The edge of a transfer in the plan's graph; `none` if there is no such edge.
std::int32_t edge_of(const plan& plan, const plan_op& transfer);

}  // namespace troupe
