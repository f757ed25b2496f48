#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Results of `simulate`; times are in the unit of the costs.
struct simulation {
  /// By plan op. A send starts with its producer's end, or when the messages
  /// before it have left its channel, and ends when its own has; a receive ends
  /// when its message has arrived.
  std::vector<double> start{};
  std::vector<double> end{};
  /// End of the last op; all ranks start at 0.
  double makespan = 0;
  /// From one step's start to the next, in the long run, if each rank begins
  /// the next step as soon as its own update is done.
  double period = 0;
  /// 1 - busy / makespan over all ranks, and for each rank.
  double bubble = 0;
  std::vector<double> idle{};
  /// The same, counting each rank only from its first start to its last end.
  double span_bubble = 0;
  /// By rank: most (stage, microbatch, slice) forwarded and not yet freed, but
  /// for those in the host's memory.
  std::vector<std::int32_t> in_flight{};
  /// Ops from the start to the makespan, each of which begins when its
  /// predecessor has ended or its message has arrived.
  std::vector<std::uint32_t> critical_path{};
};

/// Simulates a plan: a rank's compute ops run one after the other in lane
/// order, reductions and gathers concurrently in their own order, as offloads
/// and reloads in theirs; messages
/// occupy no rank, but for their transfer their channel. In another order than
/// the lane's each rank's `lane_executor` decides, as in a run. Throws `error`
/// (invalid_argument) if costs of single ops don't fit the plan, or atomic
/// pairs the order; (deadlock) if the plan stalls.
simulation simulate(const plan& plan, const op_costs& costs = {},
                    lane_order order = lane_order::strict);

/// Steps that follow each other.
struct step_series {
  std::int32_t steps = 1;
  /// No rank begins a step before all have ended the one before, as when every
  /// update waits for the norm of all gradients. Otherwise each begins when its
  /// own update is done.
  bool barrier = false;
  lane_order order = lane_order::strict;
};

/// When each step ends: the last op of all ranks. `costs_of` gives the costs of
/// a step, from 0. Throws as `simulate`.
std::vector<double> step_ends(
  const plan& plan, const std::function<op_costs(std::int32_t step)>& costs_of,
  const step_series& how);

}  // namespace troupe
