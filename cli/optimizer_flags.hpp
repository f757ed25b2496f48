#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/plan/choices.hpp"
#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/engine/stage/update/update_options.hpp"

namespace troupe::cli {

/// The flags of all optimizers. Numbers that are not set have the defaults of
/// the chosen optimizer.
struct optimizer_flags {
  std::string optimizer = "adamw";
  std::optional<double> lr, weight_decay, momentum, dampening;
  std::optional<double> beta1, beta2, epsilon;
  bool decays_all = true;  // false: only matrices
  bool nesterov = false;
  muon of_muon{};                       // scale and exceptions
  std::vector<std::string> parameters;  // parameter groups
};

void add_optimizer_flags(CLI::App& app, optimizer_flags& flags);

/// Logs a warning for each flag that the chosen optimizer does not use.
optimizer_options optimizer_for(const optimizer_flags& flags);

/// Throws `invalid_argument`.
parameter_groups groups_for(const optimizer_flags& flags, const model& layers);

/// "fp32", "bf16" and "fp16", after an optional word that stands for no dtype.
choices<std::optional<at::ScalarType>> dtype_choices(const char* none = "");

}  // namespace troupe::cli
