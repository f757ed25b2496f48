#pragma once

#include <memory>

#include "troupe/actors/trainer.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"

namespace troupe::cli {

/// Throws `invalid_argument` for a --dashboard that can't be served.
void require_dashboard(const access_options& options);

/// Serves the page for --dashboard, and logs its address; null without the
/// flag. The run must outlive it. Throws `invalid_argument` and `io`.
std::unique_ptr<dashboard> open_dashboard(const trainer& run,
                                          const train_options& options);

}  // namespace troupe::cli
