#pragma once

#include "troupe/cli/train_setup.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"
#include "troupe/monitors/monitor_spec.hpp"

namespace troupe::cli {

/// What monitors of this run need to know; reports of the sink's making.
monitor_context context_of(trainer& run, const train_setup& setup,
                           sink_pointer sink);

/// The sinks that --sink asks for, and the page's; alerts go to the log too.
sink_pointer make_sinks(const train_options& options, const dashboard* page);

/// Throws `invalid_argument` and `io` for a --monitor or --sink that can't be
/// made.
void require_monitors(const train_options& options);

/// Progress, warnings, files that flags ask for, --monitor, and what feeds the
/// page, which may be null.
void attach_monitors(trainer& run, const train_options& options,
                     const train_setup& setup, const dashboard* page);

}  // namespace troupe::cli
