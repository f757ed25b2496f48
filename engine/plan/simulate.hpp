#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/plan/costs.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Results of `simulate`; times are in the unit of the costs.
struct simulation {
  /// By plan op. A send starts and ends with its producer; a receive ends
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
  /// By rank: most (stage, microbatch, slice) forwarded and not yet freed.
  std::vector<std::int32_t> in_flight{};
  /// Ops from the start to the makespan, each of which begins when its
  /// predecessor has ended or its message has arrived.
  std::vector<std::uint32_t> critical_path{};
};

/// Simulates a plan: a rank's compute ops run one after the other in lane
/// order, reductions and gathers concurrently in their own order; messages
/// occupy no rank and never queue. Throws `error` (invalid_argument) if costs
/// of single ops don't fit the plan, (deadlock) if the plan stalls.
simulation simulate(const plan& plan, const op_costs& costs = {});

/// By rank: the most activations held at once in lane order. An activation is
/// freed by B, or by W if the backward is split.
std::vector<std::int32_t> peak_in_flight(const plan& plan);

}  // namespace troupe
