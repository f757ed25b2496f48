#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device_trainings.hpp"

namespace troupe::testing {

/// Streams of a rank without overlapped pairs. With them, a second compute
/// stream follows these.
constexpr int streams_of_rank = 4;

/// A recorded step: the device's and the host's times of each op, each call in
/// which the host waited, and each operator that made it wait.
struct step_trace {
  std::shared_ptr<const plan> of;
  std::vector<ops_event> ops;
  std::vector<host_wait> waits;
  std::vector<std::string> reads;
  int streams_each = streams_of_rank;
};

/// The step after `warm_up` steps of a run on a device whose first forward
/// takes so many seconds longer. Ranks make their streams one rank after the
/// other: the first `streams_each` are rank 0's. `change` may change the run.
step_trace trace_step(
  const small_case& what, const device_pointer& on, double seconds,
  const std::function<trainer_options(trainer_options)>& change = {},
  int warm_up = 2);

/// When the host launched a rank's forwards and backwards.
struct launch_window {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
launch_window launches_of(const step_trace& trace, std::size_t rank);

/// Waits of a rank between its first forward and its last backward.
std::vector<host_wait> waits_within(const step_trace& trace, std::size_t rank);

/// The number of forwards and backwards that a rank had begun to launch by
/// then.
std::int64_t launched_by(const step_trace& trace, std::size_t rank,
                         std::int64_t time);

/// When the device completed the very first op.
std::int64_t first_op_end(const step_trace& trace);

/// Forwards and backwards that began on the device before their rank's previous
/// op, or the op that computes their input, had ended there, in words. The
/// clocks of ranks differ by less than a millisecond.
std::vector<std::string> disordered_ops(const step_trace& trace);

/// Checks that the host launches a whole step's forwards and backwards while
/// the device still runs its first op, without waiting.
void check_host_goes_on(const small_case& what, const device_pointer& on,
                        double seconds, int warm_up = 2);
/// Checks that the host waits when it is 64 ops ahead, and not earlier, on one
/// rank.
void check_throttle(const device_pointer& on, double seconds,
                    const small_case& what = {.ranks = 1, .microbatches = 64});

}  // namespace troupe::testing
