#pragma once

#include <cstdint>
#include <string>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct gap_options {
  std::int64_t every = 1;   // steps with step % every == 0
  std::string match = "*";  // globs over modules and parameters
  bool histogram = false;   // log2 histograms too
};

/// Gradient, activation and parameter statistics (OLMo-core's GAP monitor):
/// metrics `gap/{activations|activation_grads|params|grads}/NAME/{max|mean|
/// var}`, and `/nans` and `/infs` where there are any.
///
/// Activations and their gradients: the mean over a rank's batch of each
/// instance's mean and unbiased variance, then the mean over data ranks; max
/// is max|x|. Parameters and gradients: of the whole tensor, before clipping
/// and the update, the loss scale taken out. Values that are not finite are
/// counted and left out of mean and var. Tensors of one element, and
/// activations of one dimension, are skipped. Histograms are of all replicas.
/// Throws `invalid_argument`.
monitor gap_monitor(const gap_options& options, sink_pointer sink);

}  // namespace troupe
