#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// What a compute op gives to another stage: a forward its activation, a B or
/// an I the gradient of its inputs. Named by the stage that makes it, on
/// whichever rank it is.
struct value {
  bool gradient = false;
  std::int32_t stage = 0;
  std::int8_t copy = 0;
  std::int16_t slice = 0;
  std::int32_t microbatch = 0;

  friend auto operator<=>(const value&, const value&) = default;
};

/// "activation of microbatch 3 slice 0 of stage 1".
std::string to_text(const value& of);

/// The value that an op reads: a compute op of another stage, a send the one
/// that it sends. None where it reads none.
std::optional<value> input_of(const plan& within, const plan_op& op);

/// The value that an op makes, or a receive brings; none where no other stage
/// reads it.
std::optional<value> output_of(const plan& within, const plan_op& op);

/// Whether another rank reads what the op makes.
bool leaves_rank(const plan& within, const plan_op& op);

/// Whether a stage reads the model's inputs: it has no stage before it.
bool takes_inputs(const plan& within, std::int32_t stage);
/// Whether a stage computes the losses: no other stage reads its activations.
bool makes_losses(const plan& within, std::int32_t stage);

/// A sending and a receiving stage of different ranks.
struct stage_edge {
  std::int32_t from = 0;
  std::int32_t to = 0;

  friend auto operator<=>(const stage_edge&, const stage_edge&) = default;
};
/// Those of all messages, ascending, each once.
std::vector<stage_edge> edges_of(const plan& of);

}  // namespace troupe
