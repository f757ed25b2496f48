#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "troupe/actors/messages.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

/// A step as the leader begins it. The others begin the same one, or the
/// programs have parted.
struct remote_begin {
  std::int64_t serial = 0;
  std::int64_t step = 0;
  troupe::phase phase = phase::training;
  double learning_rate = 0;
  double loss_scale = 1;
  std::int64_t first_microbatch = 0;
  bool skip_update = false;
  std::uint64_t plan = 0;  // its hash
  /// What the leader's monitors want to see of it.
  std::int64_t epoch = -1;
  bool wants_ops = false;
  std::vector<subscription> interest{};
};

/// Empty if both are the same step; else what differs, with both values.
std::string difference(const remote_begin& leader, const remote_begin& own);

struct remote_outcome {
  std::int64_t serial = 0;
  step_event event;
  std::string failure;
  bool interrupted = false;
};

/// A part of a stage's gradients on its way between replicas.
struct reduce_part {
  std::int64_t serial = 0;
  std::int32_t stage = 0;
  std::int32_t data_rank = 0;  // whose gradients; none: the average of all
  std::int32_t piece = 0;      // which of as many pieces as there are replicas
  at::Tensor values;           // one dimension
};

// Frames of these messages, and back. Reading throws `transport`.

frame to_frame(const remote_begin& message);
frame to_frame(const stage_squares& message);
frame to_frame(const norm_known& message);
frame to_frame(const rank_done& message);
frame to_frame(const remote_outcome& message);
frame to_frame(const op_failure& message);
frame to_frame(const interrupt_run& message);
frame to_frame(event message);

/// What a control frame holds.
using control_message =
  std::variant<remote_begin, stage_squares, norm_known, rank_done,
               remote_outcome, op_failure, interrupt_run, event>;
control_message read_control(frame what);

frame to_frame(stage_tensors message);
stage_tensors read_stage_tensors(frame what);
/// Of a frame whose tensors have not come yet; without their forms.
envelope read_envelope(std::string_view head);

frame to_frame(reduce_part message);
reduce_part read_reduce_part(frame what);

/// A message was consumed; its channel may carry another.
struct credit_back {
  std::int64_t serial = 0;
  std::int32_t channel = 0;
};
frame to_frame(const credit_back& message);
credit_back read_credit(const frame& what);

}  // namespace troupe
