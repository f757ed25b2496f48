#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// A process that may host ranks. Processes of one core group share its cores,
/// or its devices.
struct hosting_process {
  std::int32_t group = 0;
  double speed = 1;  // of its ops, 1 in the fastest process
};

/// What is known of a job whose ranks may move. Rank r of replica d is number
/// d x ranks + r.
struct hosting_problem {
  const troupe::plan& plan;
  std::int32_t replicas = 1;
  /// In seconds, of ops in a process of speed 1 that have a core to themselves,
  /// and of messages between two processes. Not of single ops.
  op_costs costs{};
  std::vector<hosting_process> processes{};
  std::vector<double> cores{};          // by group: ops that run at once, >= 1
  std::vector<std::int32_t> hosting{};  // the process of each rank now
  std::vector<std::int64_t> state_bytes{};  // by stage, what moves with a rank
};

/// What moves cost, in seconds: each a pause, and the states on their way.
struct move_costs {
  double pause = 0.5;
  double bytes_per_second = 100e6;
};

struct hosting_choice {
  std::vector<std::int32_t> hosting{};
  double now = 0, then = 0;  // seconds of a step, predicted
  double cost = 0;           // seconds that the move takes

  double gain() const { return now > 0 ? 1 - then / now : 0; }
  /// Steps after which the move has paid; infinity if it never does.
  double steps_to_pay() const;
};

/// Seconds of a step with this hosting: the simulated step of the slowest
/// replica, whose ops take longer in slower processes and whose messages take
/// time between processes alone, or what the busiest core group needs for the
/// ops of all its ranks, whichever is longer. The truth is between this bound
/// and the sum of both.
double predicted_step(const hosting_problem& problem,
                      const std::vector<std::int32_t>& hosting);

/// No hosting has a shorter predicted step.
double least_step(const hosting_problem& problem);

/// The hosting with the shortest predicted step, and among those that are
/// within 1 % of it one in which few ranks move. Processes that host nothing
/// now are left alone, and no other one is emptied. All hostings are tried if
/// they are few (4096), else moves of one rank and swaps of two, as long as
/// they help; of large plans until so many ops have been simulated (4e6, about
/// a second). Depends on the problem alone: no clock.
hosting_choice best_hosting(const hosting_problem& problem,
                            const move_costs& moving = {});

}  // namespace troupe
