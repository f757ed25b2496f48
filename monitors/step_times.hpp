#pragma once

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// From the begin to the end of a step, and what that makes of its tokens.
inline double seconds_of(const step_event& step) {
  return static_cast<double>(step.end - step.begin) * 1e-9;
}
inline double tokens_per_second(const step_event& step) {
  return static_cast<double>(step.tokens) / seconds_of(step);
}

/// Where a step's time went, from what its ranks executed.
struct step_times {
  double seconds = 0;       // first op's begin to last op's end
  double bubble = 0;        // share of all ranks' time without an op
  double plan_seconds = 0;  // the same ops and costs, on paper
  double plan_bubble = 0;
};

/// `ops`: one event a rank and replica, of one step. All replicas count; the
/// paper figures are the slowest replica's.
step_times times_of(const plan& plan, const std::vector<ops_event>& ops);

/// Its `bubble` alone, which needs no simulation.
double bubble_of(const plan& plan, const std::vector<ops_event>& ops);

/// When the first of a step's ops began and the last one ended, in ns.
struct step_extent {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max();
  std::int64_t end = 0;
};
step_extent extent_of(const std::vector<ops_event>& ops);

/// The time in which at least one of these ops of a rank ran, in ns: those of
/// an overlapped pair run at once on a device.
std::int64_t busy_time(std::vector<op_record> ops);

/// The time that each op of a rank took, in ns, as its record lists them. The
/// second op of an overlapped pair took what it ran without the first, so that
/// the sum is the pair's time.
std::vector<std::int64_t> op_times(const plan& plan, const ops_event& rank);

/// The measured cost of each op of the plan, in seconds, for `simulate`:
/// `op_times` of one replica.
op_costs measured_costs(const plan& plan, const std::vector<ops_event>& ops,
                        std::int32_t data_rank);

/// Gathers what the ranks executed until the step's summary comes, which is
/// always its last event. The ops of a step whose rest was dropped, or that
/// comes again, are discarded.
class step_collector {
 public:
  /// The finished step's ops; null until its summary came.
  const std::vector<ops_event>* add(const event& what) {
    if (const auto* ops = std::get_if<ops_event>(&what))
      gathering_.push_back(*ops);
    if (voids_step(what))
      gathering_.clear();
    if (!std::holds_alternative<step_event>(what))
      return nullptr;
    finished_ = std::exchange(gathering_, {});
    return &finished_;
  }

 private:
  std::vector<ops_event> gathering_;
  std::vector<ops_event> finished_;
};

}  // namespace troupe
