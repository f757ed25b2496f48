#pragma once

#include <string>

#include "troupe/engine/device/cgroup_limits.hpp"

namespace troupe::cli {

struct train_options;
struct train_setup;

/// The cores that this process may use at a time: those of its affinity mask,
/// and no more than its control groups allow.
double usable_cores(const cgroup_limits& limits = read_cgroup_limits());

/// "16 ranks share 2 cores; the bubble mostly shows waiting for a core", where
/// the ranks' threads are more than the cores; else empty.
std::string shared_cores_text(int ranks, int threads, double cores);

/// Logs this once for a pipeline on CPUs, so that its measured bubble is not
/// taken for the schedule's.
void log_shared_cores(const train_options& options, const train_setup& setup);

}  // namespace troupe::cli
