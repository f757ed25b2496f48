#pragma once

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/training/run_settings.hpp"

namespace troupe::cli {

/// The flags, without dashes, that a resumed run takes from its own command
/// line instead of its checkpoint: those of the optimisation without --steps,
/// and the sizes of the batch. `train_setup::data_settings` decides the data.
setting_texts flags_of_updates(const CLI::App& command);

}  // namespace troupe::cli
