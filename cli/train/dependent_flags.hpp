#pragma once

#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/train/train_options.hpp"

namespace troupe::cli {

/// Flags that have an effect only together with another flag, or only without
/// it. One without effect is an error where the run would lack what it asks for
/// (a file, adapters, a protection), and else a warning.
struct dependent_flags {
  std::vector<std::string> names;  // without dashes
  bool have_effect = true;         // given the other flags of the run
  std::string condition;           // "without --lora-rank"
  bool are_refused = false;  // an error if they have no effect, else a warning
};

/// All such flags of `troupe train`.
std::vector<dependent_flags> dependent_flags_of(const train_options& options);

/// Throws `invalid_argument` for flags of the command line without effect that
/// are refused.
void require_effects(const CLI::App& command, const train_options& options);

/// Logs a warning for each other flag of the command line without effect.
void warn_of_idle_flags(const CLI::App& command, const train_options& options);

/// The flags that --print-config omits unless they are set: a file of a
/// schedule, a plan or a model determines them, or they have no effect.
std::vector<std::string> moot_flags(const train_options& options);

}  // namespace troupe::cli
