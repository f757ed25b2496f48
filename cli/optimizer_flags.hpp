#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

#include "troupe/cli/plan/choices.hpp"
#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/update/optimizer_options.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"

namespace troupe::cli {

/// The flags of all optimizers; numbers below 0: the optimizer's default.
struct optimizer_flags {
  std::string optimizer = "adamw";
  double lr = -1;
  double weight_decay = -1;
  std::string decay_of = "all";
  double momentum = -1;
  double dampening = -1;
  bool nesterov = false;
  double beta1 = -1;
  double beta2 = -1;
  double epsilon = -1;
  std::string muon_scale = "match_rms_adamw";
  std::string muon_except = muon{}.except;
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
