#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/turn_queue.hpp"
#include "troupe/engine/plan/lane_executor.hpp"
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
    return free_[rank][slot(op.stream)];
  }

  std::vector<stream_clocks> free_;  // by rank: when each stream is
  channel_times channels_;
  std::int32_t blocker_ = none;
};

/// The timing of one step of `simulate` in which each rank's `lane_executor`
/// decides what starts next, as in a run: an event simulation. Events of one
/// time reach all ranks before any rank starts a compute op. In strict order
/// its times are those of `step_clock`, which is several times faster, but that
/// an op that waits for a collective or a copy holds up all behind it.
class executor_clock {
 public:
  /// Throws `error` (invalid_argument) if costs of single ops don't fit the
  /// plan, and for atomic pairs: an executor starts single ops.
  executor_clock(const plan& plan, const op_costs& costs, lane_order order);

  /// As `step_clock::run_step`.
  void run_step(std::vector<double>& free_from);

  std::vector<double> start;
  std::vector<double> end;
  /// By rank: its ops as they started in the last step that was run.
  std::vector<std::vector<std::uint32_t>> started;

 private:
  enum class event_kind : std::uint8_t {
    rank_begins,
    op_ends,
    message_arrives
  };
  struct event {
    double time = 0;
    std::uint64_t number = 0;  // of equal times, the first comes first
    event_kind kind = event_kind::op_ends;
    std::uint32_t which = 0;  // rank, op, receive

    friend bool operator>(const event& a, const event& b) {
      return a.time != b.time ? a.time > b.time : a.number > b.number;
    }
  };
  /// The state of a receive.
  struct message_state {
    bool posted = false;
    bool arrived = false;
  };

  void begin(const std::vector<double>& free_from);
  void expect(double time, event_kind kind, std::uint32_t which);
  void happen_until_now();
  void happen(const event& what);
  void op_ended(std::uint32_t op);
  void start_ops(bool compute);
  bool all_inputs_ended(std::uint32_t op) const;
  void start_op(std::uint32_t op, std::size_t rank);
  void run_op(std::uint32_t op, std::size_t rank);
  void start_transfer(std::uint32_t op, std::size_t rank);
  void wake(std::size_t rank);

  const plan& plan_;
  const op_costs& costs_;
  std::vector<lane_executor> executors_;  // by rank
  std::vector<message_state> messages_;   // by message
  channel_times channels_;
  std::vector<char> ended_;                // by op
  std::vector<std::uint32_t> collecting_;  // begun at some of their ranks
  std::vector<char> begun_, woken_;        // by rank
  std::vector<std::size_t> to_wake_;       // ranks
  /// By rank: when each stream is free; the compute stream's ops start then.
  std::vector<std::array<double, clocked_streams>> free_;
  std::vector<double> last_end_;  // by rank
  std::priority_queue<event, std::vector<event>, std::greater<>> events_;
  std::uint64_t events_so_far_ = 0;
  double now_ = 0;
};

}  // namespace troupe
