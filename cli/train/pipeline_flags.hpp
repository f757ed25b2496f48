#pragma once

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

struct train_options;

/// Declares the flags of the schedule, of its replicas, and of the order in
/// which ops start, each as a section of help.
void add_pipeline_flags(CLI::App& app, train_options& options);
void add_replica_flags(CLI::App& app, train_options& options);
void add_order_flags(CLI::App& app, train_options& options);

}  // namespace troupe::cli
