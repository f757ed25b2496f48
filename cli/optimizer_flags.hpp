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

/// The flags of all optimizers; numbers that are not given are the optimizer's
/// own.
struct optimizer_flags {
  std::string optimizer = "adamw";
  std::optional<double> lr, weight_decay, momentum, dampening;
  std::optional<double> beta1, beta2, epsilon;
  bool decays_all = true;  // else matrices alone
  bool nesterov = false;
  muon of_muon{};                       // its scale and its exceptions
  std::vector<std::string> parameters;  // groups of them
};

void add_optimizer_flags(CLI::App& app, optimizer_flags& flags);

/// Logs a warning of each flag that the optimizer does not use.
optimizer_options optimizer_for(const optimizer_flags& flags);

/// Throws `invalid_argument`.
parameter_groups groups_for(const optimizer_flags& flags, const model& layers);

/// "fp32", "bf16" and "fp16", after a word that stands for none of them, if
/// there is one.
choices<std::optional<at::ScalarType>> dtype_choices(const char* none = "");

}  // namespace troupe::cli
