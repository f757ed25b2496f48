#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// Everything that a rank does in a step: the compute ops of the schedule
/// and the ops that compilation adds.
enum class plan_op_kind : std::uint8_t {
  forward,
  backward,
  input_backward,
  weight_backward,
  send,     // hands a compute op's output to its channel, never blocks the lane
  receive,  // posts the buffer of a message (grants a credit), never blocks
  gather,   // sharded parameters of a stage are made whole
  release,  // ... and dropped
  reduce,   // gradients of a stage are reduced over the data ranks
  gradient_norm,  // squares of a stage's gradients, summed over the job
  update,         // the optimizer, for one stage
};

/// The stream on which an op runs. On a CPU all run on the rank's thread.
enum class stream_kind : std::uint8_t {
  compute,
  data,           // gather and reduce
  send_forward,   // one for each direction of transfer
  send_backward,
  receive_forward,
  receive_backward,
};

inline constexpr std::int32_t none = -1;

/// One op of the plan; its place in `plan::ops` is its identity.
struct plan_op {
  plan_op_kind kind = plan_op_kind::forward;
  stream_kind stream = stream_kind::compute;
  std::int8_t copy = 0;
  bool overlaps_next = false;
  std::int16_t slice = 0;
  std::int32_t stage = 0;
  std::int32_t microbatch = none;  // none for ops on whole stages
  std::int32_t message = none;     // of send and receive
  std::uint32_t first_dependency = 0;  // into plan::dependencies
  std::uint32_t dependency_count = 0;
};

/// One tensor list that crosses ranks: a forward output, or a gradient that
/// comes back. `sequence` counts the messages of its channel from 0.
struct message {
  std::int32_t channel = 0;
  std::int32_t sequence = 0;
  std::uint32_t producer = 0;  // compute op
  std::uint32_t send = 0;
  std::uint32_t receive = 0;
  std::uint32_t consumer = 0;  // compute op
};

/// A directed pair of ranks and a direction of travel; messages keep their
/// order within a channel. `credits` bounds the messages that were sent and
/// not yet consumed; `bound` is what the lanes alone guarantee, so sends
/// never wait where credits >= bound.
struct channel {
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  bool backward = false;
  std::int32_t messages = 0;
  std::int32_t bound = 0;
  std::int32_t credits = 0;
};

/// The compiled graph of one step, for every rank of one data replica. Flat
/// arrays; no pointers; copyable. Ops stand rank by rank in lane order, so
/// that op indices of rank r are [first_op[r], first_op[r + 1]).
/// A dependency is an op of any rank that must have ended first; the lane
/// order of one rank's compute stream is implied and not listed.
struct plan {
  std::string schedule_name;
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;
  bool training = true;
  troupe::placement placement;
  std::vector<std::uint32_t> first_op;  // ranks + 1
  std::vector<plan_op> ops;
  std::vector<std::uint32_t> dependencies;
  std::vector<message> messages;
  std::vector<channel> channels;

  std::int32_t ranks() const { return placement.ranks; }
  std::int32_t stages() const { return placement.stages(); }
  std::span<const plan_op> lane(std::int32_t rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return std::span{ops}.subspan(first_op[r], first_op[r + 1] - first_op[r]);
  }
  std::span<const std::uint32_t> dependencies_of(const plan_op& op) const {
    return std::span{dependencies}.subspan(op.first_dependency,
                                           op.dependency_count);
  }
};

constexpr bool is_compute(plan_op_kind kind) {
  return kind <= plan_op_kind::weight_backward;
}

}  // namespace troupe
