#pragma once

#include "troupe/cli/train/train_setup.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"
#include "troupe/monitors/monitor_spec.hpp"

namespace troupe::cli {

/// The context of this run's monitors; reports go to the sink.
monitor_context context_of(trainer& run, const train_setup& setup,
                           sink_pointer sink);

/// The sinks for --sink and the page; alerts go to the log too.
sink_pointer make_sinks(const train_options& options, const dashboard* page);

/// Throws `invalid_argument` and `io` for a --monitor or --sink that can't be
/// made.
void require_monitors(const train_options& options);

/// Attaches progress, warnings, output files, --monitor, and the page's
/// monitors; the page may be null.
void attach_monitors(trainer& run, const train_options& options,
                     const train_setup& setup, const dashboard* page);

}  // namespace troupe::cli
