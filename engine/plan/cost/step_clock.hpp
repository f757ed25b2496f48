#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/turn_queue.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// Throws `error` (deadlock): no clock can end a step of the plan.
[[noreturn]] void fail_stalled();

/// The timing of one step of `simulate`. A send takes no time of its rank: it
/// ends when its message has been transferred, and the receive a latency later.
class step_clock {
 public:
  step_clock(const plan& plan, const op_costs& costs);

  /// Fills start and end of all ops, with rank r free from `free_from[r]` on;
  /// then moves `free_from` to the ranks' ends.
  void run_step(std::vector<double>& free_from);

  std::vector<double> start;
  std::vector<double> end;

 private:
  void run_lane(std::int32_t rank, turn_queue& turns);
  bool attempt(std::uint32_t op, std::size_t rank);
  bool attempt_pair(std::uint32_t op, std::size_t rank);
  bool attempt_transfer(std::uint32_t op);
  bool credit_there(std::int32_t message, double& left);
  bool inputs_there(std::uint32_t op, double& ready);
  std::int32_t rank_that_gives(std::uint32_t input) const;
  void set(std::uint32_t op, double start_time, double end_time);

  const plan& plan_;
  const op_costs& costs_;
  std::vector<std::uint32_t> next_;  // by rank
  using stream_clocks = std::array<double, clocked_streams>;
  double& clock_of(const plan_op& op, std::size_t rank) {
    return free_[rank][static_cast<std::size_t>(op.stream)];
  }

  std::vector<stream_clocks> free_;  // by rank: when each stream is
  channel_times channels_;
  std::int32_t blocker_ = none;
};

}  // namespace troupe
