#pragma once

#include <memory>

#include "troupe/actors/trainer.hpp"
#include "troupe/cli/train/train_replan.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/monitors/live/endpoint_server.hpp"

namespace troupe::cli {

/// Throws what `open_endpoint` would refuse without opening anything: the
/// token file and the endpoint's address.
void require_endpoint(const access_options& options);

/// Lets others attach to the run at --endpoint, and logs how; null if it is
/// disabled, or if the default one can't be made, which is a warning. Throws
/// `invalid_argument`, `io`, `transport`. `orders` outlives the server; null
/// where the run keeps its order.
std::unique_ptr<endpoint_server> open_endpoint(trainer& run,
                                               const train_options& options,
                                               const train_setup& setup,
                                               const replanner* orders);

}  // namespace troupe::cli
