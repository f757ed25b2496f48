#pragma once

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/membership/failure_policy.hpp"

namespace troupe::cli {

/// Declares --on-failure.
void add_failure_flag(CLI::App& app, membership::failure_policy& policy);

}  // namespace troupe::cli
