#pragma once

#include <array>
#include <string_view>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

enum class op_class : std::uint8_t {
  compute,     // F, B, I, W: an op of the schedule
  transfer,    // one half of a message
  collective,  // of parameters or gradients: of a stage, or tied ones
  copy,        // of activations, between the device's memory and the host's
  closing,     // after all gradients of a stage
};

/// How drawings show a kind of op: in HSL. The lightness is that of the first
/// of a rank's stages; the others are darker.
struct op_colour {
  int hue;                    // in degrees
  int saturation, lightness;  // in percent
  std::string_view terminal;  // an escape sequence
};

/// What an action of a plan is called and how it is treated by default. Texts,
/// CSV, costs, drawings and monitors read it here.
struct op_traits {
  plan_op_kind kind;
  op_class type;
  stream_kind stream;
  std::string_view action;    // in texts, as PyTorch spells it if it has one
  std::string_view name;      // for people
  std::string_view cost_key;  // in costs, where a message counts as a send
  double cost;                // in forwards
  op_colour colour;
};

inline constexpr op_colour plain_colour{212, 9, 58, "\x1b[30;47m"};
inline constexpr op_colour forward_colour{212, 78, 78, "\x1b[30;46m"};
inline constexpr op_colour backward_colour{28, 86, 66, "\x1b[97;44m"};
inline constexpr op_colour input_colour{160, 52, 64, "\x1b[97;45m"};
inline constexpr op_colour weight_colour{272, 46, 68, "\x1b[30;43m"};
inline constexpr op_colour copy_colour{338, 44, 66, "\x1b[30;47m"};

/// One row an action: a transfer's two directions are two actions. No action is
/// a prefix of a later one.
inline constexpr std::array op_actions{
  op_traits{plan_op_kind::send, op_class::transfer, stream_kind::send_forward,
            "SEND_F", "send", "message", 0, plain_colour},
  op_traits{plan_op_kind::send, op_class::transfer, stream_kind::send_backward,
            "SEND_B", "send", "message", 0, plain_colour},
  op_traits{plan_op_kind::receive, op_class::transfer,
            stream_kind::receive_forward, "RECV_F", "receive", "", 0,
            plain_colour},
  op_traits{plan_op_kind::receive, op_class::transfer,
            stream_kind::receive_backward, "RECV_B", "receive", "", 0,
            plain_colour},
  op_traits{plan_op_kind::gather, op_class::collective, stream_kind::collective,
            "UNSHARD", "gather", "unshard", 0, plain_colour},
  op_traits{plan_op_kind::release, op_class::collective,
            stream_kind::collective, "RESHARD", "release", "reshard", 0,
            plain_colour},
  op_traits{plan_op_kind::offload, op_class::copy, stream_kind::offload,
            "OFFLOAD", "offload", "offload", 0, copy_colour},
  op_traits{plan_op_kind::reload, op_class::copy, stream_kind::reload, "RELOAD",
            "reload", "reload", 0, copy_colour},
  op_traits{plan_op_kind::reduce, op_class::collective, stream_kind::collective,
            "REDUCE_GRAD", "reduce", "reduce", 0, plain_colour},
  op_traits{plan_op_kind::sum_tied, op_class::collective,
            stream_kind::collective, "SUM_TIED", "sum of tied gradients",
            "sum_tied", 0, plain_colour},
  op_traits{plan_op_kind::gradient_norm, op_class::closing,
            stream_kind::compute, "NORM", "norm and update", "norm", 0,
            plain_colour},
  op_traits{plan_op_kind::update, op_class::closing, stream_kind::compute,
            "UPDATE", "norm and update", "update", 0, plain_colour},
  op_traits{plan_op_kind::forward, op_class::compute, stream_kind::compute, "F",
            "forward", "f", 1, forward_colour},
  op_traits{plan_op_kind::backward, op_class::compute, stream_kind::compute,
            "B", "backward", "b", 2, backward_colour},
  op_traits{plan_op_kind::input_backward, op_class::compute,
            stream_kind::compute, "I", "input backward", "i", 1, input_colour},
  op_traits{plan_op_kind::weight_backward, op_class::compute,
            stream_kind::compute, "W", "weight backward", "w", 1,
            weight_colour},
};

inline constexpr std::size_t op_kinds = 14;

/// The traits of a kind; a transfer is one of activations.
constexpr const op_traits& traits_of(plan_op_kind kind) {
  const auto* row = op_actions.begin();
  while (row->kind != kind)
    ++row;
  return *row;
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

/// Whether the rank's compute stream is busy while the op runs: a compute or a
/// closing op.
constexpr bool takes_time(plan_op_kind kind) {
  const auto type = traits_of(kind).type;
  return type == op_class::compute || type == op_class::closing;
}

/// The row whose action a text begins with; null if there is none.
constexpr const op_traits* action_at(std::string_view text) {
  for (const auto& row : op_actions)
    if (text.starts_with(row.action))
      return &row;
  return nullptr;
}

}  // namespace troupe
