#pragma once

#include <map>
#include <string>

#include "troupe/engine/stage/numerics.hpp"

namespace troupe {

struct manifest;

/// Settings and their values, as checkpoints hold them.
using setting_texts = std::map<std::string, std::string>;

/// The setting of a checkpoint that names the optimizer.
inline constexpr auto optimizer_setting = "optimizer";
/// "adamw", "sgd", "lion", "adafactor" or "muon".
std::string optimizer_name(const optimizer_options& options);

/// The shapes of a learning rate's decay, by their names.
const std::map<std::string, learning_rate_schedule::shape>& decays();

/// A run's learning rates.
struct learning_rates {
  learning_rate_schedule schedule{};
  double base = 0;

  /// The rate of an update; the first is 1.
  double at(std::int64_t update) const { return schedule.at(update, base); }
};
learning_rates rates_of(const numerics& options);

/// The texts of learning rates that checkpoints hold.
setting_texts texts_of(const learning_rates& rates);

/// Logs what the checkpoint's run was given differently, a line for each
/// setting, and warns if the next update has another learning rate than that
/// run would have given it. Older checkpoints don't tell. `prefix`: of
/// settings' names, "--" where they are flags.
void tell_of_other_settings(const manifest& checkpoint,
                            const setting_texts& settings,
                            const learning_rates& rates,
                            const std::string& prefix = {});

}  // namespace troupe
