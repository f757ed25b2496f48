#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/transport/frame.hpp"

namespace troupe {

/// The difference between two steps, with both values; empty if there is none.
std::string difference(const remote_begin& leader, const remote_begin& own);

/// The content of a control frame.
using control_message =
  std::variant<remote_begin, stage_powers, norm_verdict, rank_done,
               remote_outcome, op_failure, interrupt_run, finish_run, save_run,
               event>;
frame to_frame(const control_message& message);
/// The frame of an event, with the tensors that it holds.
frame to_frame(event message);
/// Throws `transport`.
control_message read_control(frame what);

frame to_frame(stage_tensors message);
stage_tensors read_stage_tensors(frame what);

frame to_frame(collective_part message);
collective_part read_collective_part(frame what);

frame to_frame(const chosen_tokens& message);

/// A message of the plan was consumed; its channel may carry another.
struct credit_back {
  std::int64_t serial = 0;
  std::int32_t message = 0;
};
TROUPE_FIELDS(credit_back, serial, message)
frame to_frame(const credit_back& message);

}  // namespace troupe
