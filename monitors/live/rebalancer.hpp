#pragma once

#include <cstdint>
#include <vector>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/events/monitor.hpp"

namespace troupe {

struct rebalancer_options {
  std::int64_t steps = 0;                   // of the whole run
  std::vector<std::int64_t> state_bytes{};  // by stage (copy_footprint.hpp)
};

/// Moves the ranks of a job that heals where its steps take less time: measures
/// the ops of all ranks, searches (best_hosting.hpp), and asks for the hosting
/// if it gains enough (rebalance_policy.hpp). Logs what it moves, and what the
/// step takes then. For the leading process; the run must outlive it.
monitor rebalancing_monitor(trainer& run, rebalancer_options options);

}  // namespace troupe
