#pragma once

#include <cstddef>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct stability_options {
  std::size_t window = 128;     // values that mean and deviation are taken of
  std::size_t rolling = 10000;  // steps that the running score looks back
  double sigmas = 6;
};

/// Finds spikes of the loss and the gradient norm (OLMo-core's stability
/// monitor): a value above mean + sigmas x deviation (of the population) of
/// the `window` values before it; a deviation below 1e-10 makes no spike. Each
/// is an alert. Metrics: `spike/score`, the share of steps with a spike among
/// the last `rolling`, once there are so many, and `spike/score_total`, of all
/// steps, once there are `window`. A value that is not finite is a spike, and
/// is left out of the window. Throws `invalid_argument`.
monitor stability_monitor(const stability_options& options, sink_pointer sink);

}  // namespace troupe
