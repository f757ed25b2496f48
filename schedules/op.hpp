#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

/// The place of a number, which is not negative, in an array.
template <class Number>
constexpr std::size_t slot(Number number) {
  return static_cast<std::size_t>(number);
}

/// A rank's computation for one microbatch of one stage. Letters are those of
/// torch.distributed.pipelining's CSV.
enum class op_kind : std::uint8_t {
  forward,          // F
  backward,         // B: gradients of inputs and of weights
  input_backward,   // I: gradients of inputs only (Qi et al., zero bubble)
  weight_backward,  // W: gradients of weights only, after its I
};

constexpr char letter(op_kind kind) {
  return "FBIW"[static_cast<int>(kind)];
}

/// One compute op of a lane. Stages count from 0 over the whole model,
/// microbatches from 0 within a step, slices from 0 within a microbatch.
/// `copy` tells the two copies of a stage apart in two-directional schedules
/// (DualPipe); it is 0 everywhere else.
struct op {
  std::int32_t stage = 0;
  std::int32_t microbatch = 0;
  std::int16_t slice = 0;
  std::int8_t copy = 0;
  op_kind kind = op_kind::forward;
  /// This op and the next one of the lane form an overlapped pair (F then B,
  /// DeepSeek's DualPipe). On a device they run at once, on a CPU one after the
  /// other.
  bool overlaps_next = false;

  friend constexpr auto operator<=>(const op&, const op&) = default;
};

constexpr bool is_backward(op_kind kind) {
  return kind != op_kind::forward;
}

/// B and W free the activation that F made, and complete its gradients.
constexpr bool frees_activation(op_kind kind) {
  return kind == op_kind::backward || kind == op_kind::weight_backward;
}

/// "2F3", or "2F3.1" if the schedule splits microbatches into slices; "2F3@1"
/// on the other copy of the stage.
std::string to_text(const op& what, bool with_slice = false);

}  // namespace troupe
