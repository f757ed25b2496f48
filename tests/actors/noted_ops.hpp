#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device_trainings.hpp"
#include "race_watch.hpp"

namespace troupe::testing {

/// A point within an op on a faked accelerator: its stream, and what precedes
/// it.
struct noted_point {
  int stream = 0;
  std::int64_t tick = 0;
  vector_clock clock;
};

/// A step as it was launched on the streams of a faked accelerator.
struct noted_step {
  struct noted_op {
    std::uint32_t op = 0;
    noted_point at;
  };
  std::shared_ptr<const plan> of;
  std::vector<std::vector<noted_op>>
    ranks;  // F, B and I of each rank, in the order in which they ran
  std::vector<ops_event> ops;
};

/// The second step of a run of one replica without slices. The last layer of
/// each stage takes so many seconds on the device, in forwards and backwards.
/// `on`: a faked accelerator, or a disturbed one; on others only the times are
/// meaningful.
noted_step note_step(const small_case& what, const device_pointer& on,
                     const overlap_options& overlap = {}, double seconds = 0);

/// Ops of a rank whose order its streams don't enforce, as "1F2 2B0" for each
/// two.
std::vector<std::string> unordered_ops(const noted_step& step);
/// The overlapped pairs of the step's plan, likewise.
std::vector<std::string> pairs_of(const noted_step& step);
/// The number of those whose ops ran at the same time.
int pairs_at_once(const noted_step& step);

}  // namespace troupe::testing
