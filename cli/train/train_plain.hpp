#pragma once

#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/train_setup.hpp"

namespace troupe::cli {

/// `troupe train --plain`: the oracle's loop, with the same output, on the CPU
/// or on the setup's first device.
void train_plain(const train_options& options, const train_setup& setup,
                 signal_watch& signals);

/// Throws what making the model would throw, for --initial and --parameters.
void require_model(const train_options& options, const train_setup& setup);

}  // namespace troupe::cli
