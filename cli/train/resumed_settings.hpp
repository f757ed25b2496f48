#pragma once

#include <map>
#include <string>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/stage/numerics.hpp"

namespace troupe {
struct manifest;
}

namespace troupe::cli {

using flag_texts = std::map<std::string, std::string>;

/// The flags, without dashes, that a resumed run takes from its own command
/// line and not from its checkpoint: those of the optimisation but --steps, and
/// the sizes of the batch. `train_setup::data_settings` decides the data.
flag_texts flags_of_updates(const CLI::App& command);

/// A run's learning rates.
struct learning_rates {
  learning_rate_schedule schedule;
  double base = 0;

  /// The rate of an update; the first is 1.
  double at(std::int64_t update) const { return schedule.at(update, base); }
};
learning_rates rates_of(const numerics& options);

/// As checkpoints hold them.
flag_texts texts_of(const learning_rates& rates);

/// Logs what the checkpoint's run was given differently, a line for each flag,
/// and warns if the next update has another learning rate than that run would
/// have given it. Older checkpoints don't tell.
void tell_of_other_settings(const manifest& checkpoint, const flag_texts& flags,
                            const learning_rates& rates);

}  // namespace troupe::cli
