#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device_trainings.hpp"

namespace troupe::testing {

/// Of a rank without overlapped pairs; with them it has a second compute stream
/// behind these.
constexpr int streams_of_rank = 4;

/// A step as it was recorded: the device's times and the host's of each op,
/// each call by which the host waited, and each operator that made it wait.
struct step_trace {
  std::shared_ptr<const plan> of;
  std::vector<ops_event> ops;
  std::vector<host_wait> waits;
  std::vector<std::string> reads;
  int streams_each = streams_of_rank;
};

/// The step after `warm_up` ones of a run on a device whose first forward takes
/// so many seconds longer. Ranks take their streams in turn, all of a rank's
/// kinds: the first `streams_each` are rank 0's. `change` may change the run.
step_trace trace_step(
  const small_case& what, const device_pointer& on, double seconds,
  const std::function<trainer_options(trainer_options)>& change = {},
  int warm_up = 2);

/// When the host gave a rank's forwards and backwards to the device.
struct launch_window {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
launch_window launches_of(const step_trace& trace, std::size_t rank);

/// Waits of a rank between its first forward and its last backward.
std::vector<host_wait> waits_within(const step_trace& trace, std::size_t rank);

/// Forwards and backwards that a rank had begun to give to the device by then.
std::int64_t launched_by(const step_trace& trace, std::size_t rank,
                         std::int64_t time);

/// When the device was done with the first op of all.
std::int64_t first_op_end(const step_trace& trace);

/// Forwards and backwards that began on the device before the op of their rank
/// before them, or the one whose output they take, had ended there: in words.
/// Clocks of ranks differ by less than a millisecond.
std::vector<std::string> disordered_ops(const step_trace& trace);

/// Checks that the host gives a whole step's forwards and backwards while the
/// device still has its first one to do, and waits for nothing meanwhile.
void check_host_goes_on(const small_case& what, const device_pointer& on,
                        double seconds, int warm_up = 2);
/// Checks that it waits once it is 64 ops ahead, and not before; on one rank.
void check_throttle(const device_pointer& on, double seconds,
                    const small_case& what = {.ranks = 1, .microbatches = 64});

}  // namespace troupe::testing
