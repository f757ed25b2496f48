#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "troupe/schedules/op.hpp"

namespace troupe {

/// All ops of a rank in a step: the compute ops of the schedule and the ops
/// that compilation adds. Those on a stage's gradients come last, in the order
/// in which they follow each other.
enum class plan_op_kind : std::uint8_t {
  forward,
  backward,
  input_backward,
  weight_backward,
  send,     // hands a compute op's output to its channel, never blocks the lane
  receive,  // posts the buffer of a message, never blocks
  gather,   // unshards the parameters of a stage
  release,  // ... and drops them again
  offload,  // what a forward keeps goes to the host's memory
  reload,   // ... and comes back for its backward
  reduce,   // gradients of a stage are reduced over the data ranks
  sum_tied,       // ... and tied ones summed over the stages that hold them
  gradient_norm,  // a stage's part of the norm of all gradients
  update,         // the optimizer, for one stage
};

inline constexpr auto op_kinds =
  static_cast<std::size_t>(plan_op_kind::update) + 1;

/// The stream on which an op runs. On a CPU all run on the rank's thread.
enum class stream_kind : std::uint8_t {
  compute,
  collective,
  offload,       // to the host's memory
  reload,        // ... and back
  send_forward,  // one per direction of transfer
  send_backward,
  receive_forward,
  receive_backward,
};

/// What one op writes and another one reads.
enum class value_kind : std::uint8_t {
  activation,       // outputs of a forward, for another stage
  gradient,         // of those: what a B or an I gives back
  context,          // what a forward keeps for its B or I
  hosted,           // ... in the host's memory: from its offload to its reload
  version,          // of the parameters, which its B or I reads again
  deferred,         // what an I keeps for its W
  carry,            // what a slice's forward keeps for the next slice's
  carry_gradient,   // ... and its B or I for that of the slice before
  weight_gradient,  // of a stage: reduced, or with sums of tied ones
  parameters,       // of a stage, whole: from a gather to its release
};

inline constexpr auto value_kinds =
  static_cast<std::size_t>(value_kind::parameters) + 1;

class value_set {
 public:
  constexpr value_set() = default;
  constexpr value_set(std::initializer_list<value_kind> kinds) {
    for (const auto kind : kinds)
      bits_ |= 1U << static_cast<unsigned>(kind);
  }

  constexpr bool has(value_kind kind) const {
    return (bits_ >> static_cast<unsigned>(kind) & 1U) != 0;
  }

 private:
  unsigned bits_ = 0;
};

enum class op_class : std::uint8_t {
  compute,     // F, B, I, W: an op of the schedule
  transfer,    // one half of a message
  collective,  // of parameters or gradients: of a stage, or tied ones
  copy,        // of activations, between the device's memory and the host's
  closing,     // after all gradients of a stage
};

/// What an op is about, and so what it depends on and where a lane may have it.
enum class op_subject : std::uint8_t {
  microbatch,  // and a slice of it
  parameters,  // of a stage: before and after the ops that read them
  gradients,   // of a stage: once per update, after the stage's backwards
};

/// The ops that are run jointly, and what an op on gradients waits for.
enum class op_group : std::uint8_t {
  none,
  instances,  // of the op's stage: its copies and replicas
  holders,    // the stages of a replica and copy that hold tied parameters
};

/// How all drawings and pages show a kind of op: in HSL. The lightness is that
/// of the first of a rank's stages; the others are darker. Kinds also differ
/// for people who do not tell red from green.
struct op_colour {
  int hue;                    // in degrees
  int saturation, lightness;  // in percent
};

inline constexpr op_colour plain_colour{30, 5, 58};
inline constexpr op_colour forward_colour{212, 84, 74};
inline constexpr op_colour backward_colour{38, 92, 62};
inline constexpr op_colour input_colour{140, 40, 64};
inline constexpr op_colour weight_colour{325, 38, 70};
inline constexpr op_colour copy_colour{24, 45, 28};

/// All that is particular to an action of a plan. Dependencies, checks of
/// lanes, texts, CSV, costs, drawings and monitors follow from it.
struct op_traits {
  plan_op_kind kind;
  op_class type;
  std::string_view action;    // in texts, as PyTorch spells it if it has one
  std::string_view name;      // for people
  std::string_view cost_key;  // in costs, where a message counts as a send
  double cost = 0;            // by default, in forwards
  op_subject subject = op_subject::microbatch;
  op_group group = op_group::none;
  stream_kind stream = stream_kind::compute;
  value_set reads{}, writes{};
  op_colour colour = plain_colour;
  char letter = '.';  // in drawings for terminals
};

/// One row per action: a transfer's two directions are two actions. No action
/// is a prefix of a later one.
inline constexpr std::array op_actions{
  op_traits{.kind = plan_op_kind::send,
            .type = op_class::transfer,
            .action = "SEND_F",
            .name = "send",
            .cost_key = "message",
            .stream = stream_kind::send_forward},
  op_traits{.kind = plan_op_kind::send,
            .type = op_class::transfer,
            .action = "SEND_B",
            .name = "send",
            .cost_key = "message",
            .stream = stream_kind::send_backward},
  op_traits{.kind = plan_op_kind::receive,
            .type = op_class::transfer,
            .action = "RECV_F",
            .name = "receive",
            .cost_key = "",
            .stream = stream_kind::receive_forward},
  op_traits{.kind = plan_op_kind::receive,
            .type = op_class::transfer,
            .action = "RECV_B",
            .name = "receive",
            .cost_key = "",
            .stream = stream_kind::receive_backward},
  op_traits{.kind = plan_op_kind::gather,
            .type = op_class::collective,
            .action = "UNSHARD",
            .name = "gather",
            .cost_key = "unshard",
            .subject = op_subject::parameters,
            .group = op_group::instances,
            .stream = stream_kind::collective,
            .writes = {value_kind::parameters},
            .letter = 'U'},
  op_traits{.kind = plan_op_kind::release,
            .type = op_class::collective,
            .action = "RESHARD",
            .name = "release",
            .cost_key = "reshard",
            .subject = op_subject::parameters,
            .stream = stream_kind::collective,
            .reads = {value_kind::parameters},
            .letter = 'U'},
  op_traits{.kind = plan_op_kind::offload,
            .type = op_class::copy,
            .action = "OFFLOAD",
            .name = "offload",
            .cost_key = "offload",
            .stream = stream_kind::offload,
            .reads = {value_kind::context},
            .writes = {value_kind::hosted},
            .colour = copy_colour},
  op_traits{.kind = plan_op_kind::reload,
            .type = op_class::copy,
            .action = "RELOAD",
            .name = "reload",
            .cost_key = "reload",
            .stream = stream_kind::reload,
            .reads = {value_kind::hosted},
            .writes = {value_kind::context},
            .colour = copy_colour},
  op_traits{.kind = plan_op_kind::reduce,
            .type = op_class::collective,
            .action = "REDUCE_GRAD",
            .name = "reduce",
            .cost_key = "reduce",
            .subject = op_subject::gradients,
            .group = op_group::instances,
            .stream = stream_kind::collective,
            .writes = {value_kind::weight_gradient},
            .letter = 'R'},
  op_traits{.kind = plan_op_kind::sum_tied,
            .type = op_class::collective,
            .action = "SUM_TIED",
            .name = "sum of tied gradients",
            .cost_key = "sum_tied",
            .subject = op_subject::gradients,
            .group = op_group::holders,
            .stream = stream_kind::collective,
            .reads = {value_kind::weight_gradient},
            .writes = {value_kind::weight_gradient},
            .letter = 'T'},
  op_traits{.kind = plan_op_kind::gradient_norm,
            .type = op_class::closing,
            .action = "NORM",
            .name = "norm and update",
            .cost_key = "norm",
            .subject = op_subject::gradients,
            .reads = {value_kind::weight_gradient},
            .letter = 'N'},
  op_traits{.kind = plan_op_kind::update,
            .type = op_class::closing,
            .action = "UPDATE",
            .name = "norm and update",
            .cost_key = "update",
            .subject = op_subject::gradients,
            .letter = 'O'},
  op_traits{.kind = plan_op_kind::forward,
            .type = op_class::compute,
            .action = "F",
            .name = "forward",
            .cost_key = "f",
            .cost = 1,
            .reads = {value_kind::activation, value_kind::carry},
            .writes = {value_kind::activation, value_kind::context,
                       value_kind::version, value_kind::carry},
            .colour = forward_colour,
            .letter = 'F'},
  op_traits{.kind = plan_op_kind::backward,
            .type = op_class::compute,
            .action = "B",
            .name = "backward",
            .cost_key = "b",
            .cost = 2,
            .reads = {value_kind::gradient, value_kind::context,
                      value_kind::version, value_kind::carry_gradient},
            .writes = {value_kind::gradient, value_kind::carry_gradient},
            .colour = backward_colour,
            .letter = 'B'},
  op_traits{.kind = plan_op_kind::input_backward,
            .type = op_class::compute,
            .action = "I",
            .name = "input backward",
            .cost_key = "i",
            .cost = 1,
            .reads = {value_kind::gradient, value_kind::context,
                      value_kind::version, value_kind::carry_gradient},
            .writes = {value_kind::gradient, value_kind::deferred,
                       value_kind::carry_gradient},
            .colour = input_colour,
            .letter = 'I'},
  op_traits{.kind = plan_op_kind::weight_backward,
            .type = op_class::compute,
            .action = "W",
            .name = "weight backward",
            .cost_key = "w",
            .cost = 1,
            .reads = {value_kind::deferred},
            .colour = weight_colour,
            .letter = 'W'},
};

/// By kind, the first of its rows.
inline constexpr auto op_rows = [] {
  std::array<const op_traits*, op_kinds> rows{};
  for (const auto& row : op_actions)
    if (auto& first = rows[static_cast<std::size_t>(row.kind)]; !first)
      first = &row;
  return rows;
}();

/// The traits of a kind; a transfer is one of activations.
constexpr const op_traits& traits_of(plan_op_kind kind) {
  return *op_rows[static_cast<std::size_t>(kind)];
}

constexpr bool is_compute(plan_op_kind kind) {
  return kind <= plan_op_kind::weight_backward;
}

/// Send and receive.
constexpr bool is_transfer(plan_op_kind kind) {
  return kind == plan_op_kind::send || kind == plan_op_kind::receive;
}

/// Offload and reload.
constexpr bool is_copy(plan_op_kind kind) {
  return traits_of(kind).type == op_class::copy;
}

/// Ops that all members of a group run together. A release is not.
constexpr bool is_joint(plan_op_kind kind) {
  return traits_of(kind).group != op_group::none;
}

/// Ops on a microbatch and slice; others are on whole stages.
constexpr bool is_of_microbatch(plan_op_kind kind) {
  return traits_of(kind).subject == op_subject::microbatch;
}

/// Ops on a stage's gradients, after its backwards.
constexpr bool is_of_gradients(plan_op_kind kind) {
  return traits_of(kind).subject == op_subject::gradients;
}

/// Backwards that need the gradient of the stage's outputs.
constexpr bool takes_gradient(plan_op_kind kind) {
  return kind == plan_op_kind::backward || kind == plan_op_kind::input_backward;
}

/// Backwards that free what F kept, and complete its gradients.
constexpr bool frees_activation(plan_op_kind kind) {
  return kind == plan_op_kind::backward
         || kind == plan_op_kind::weight_backward;
}

/// How many activations more an op leaves in the rank's memory: of a stage, a
/// microbatch and a slice.
constexpr int activations_added(plan_op_kind kind) {
  return kind == plan_op_kind::forward || kind == plan_op_kind::reload ? 1
         : frees_activation(kind) || kind == plan_op_kind::offload     ? -1
                                                                       : 0;
}

/// Whether the rank's compute stream is busy while the op runs: a compute or a
/// closing op.
constexpr bool takes_time(plan_op_kind kind) {
  const auto type = traits_of(kind).type;
  return type == op_class::compute || type == op_class::closing;
}

/// The plan's kind for a schedule's op; both enumerate F, B, I, W first.
constexpr plan_op_kind to_plan_kind(op_kind kind) {
  return static_cast<plan_op_kind>(kind);
}

/// Whether the message of a send or receive is a gradient.
constexpr bool is_gradient(stream_kind stream) {
  return stream == stream_kind::send_backward
         || stream == stream_kind::receive_backward;
}

/// The row whose action a text begins with; null if there is none.
constexpr const op_traits* action_at(std::string_view text) {
  for (const auto& row : op_actions)
    if (text.starts_with(row.action))
      return &row;
  return nullptr;
}

}  // namespace troupe
