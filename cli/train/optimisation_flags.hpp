#pragma once

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/models/registry.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe::cli {

/// Declares the flags of the optimisation, with their help.
void add_optimisation_flags(CLI::App& app, train_options& options);

/// The numerics by the flags, with the model's loss. Throws `invalid_argument`
/// naming a flag.
numerics numerics_for(const train_options& options, const built_model& model,
                      const schedule& schedule);

}  // namespace troupe::cli
