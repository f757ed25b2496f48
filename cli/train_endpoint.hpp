#pragma once

#include <memory>

#include "troupe/actors/trainer.hpp"
#include "troupe/cli/train_setup.hpp"
#include "troupe/monitors/live/endpoint_server.hpp"

namespace troupe::cli {

/// Lets others attach to the run, as --endpoint says, and logs how; null where
/// it says none, or where the default one can't be made, which is a warning.
/// Throws `invalid_argument`, `io`, `transport`.
std::unique_ptr<endpoint_server> open_endpoint(trainer& run,
                                               const train_options& options,
                                               const train_setup& setup);

}  // namespace troupe::cli
