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
  /// Reads about this share of each tensor's rows, up to 1; 0: everything.
  double sample = 0;
  std::int64_t seed = 0;  // of the choice of rows
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
///
/// With `sample`, values are estimates (engine/events/row_estimates.hpp), and
/// mean, var, nans and infs have limits of their confidence intervals of 95 %
/// beside them, as `mean_low`, `mean_high` and so on. Max is that of the
/// sample. There are no histograms then. Throws `invalid_argument`.
monitor gap_monitor(const gap_options& options, sink_pointer sink);

}  // namespace troupe
