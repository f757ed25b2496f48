#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace troupe
