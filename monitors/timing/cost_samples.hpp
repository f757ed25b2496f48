#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// The costs of a run's ops in ms: for each stage and kind the mean of the last
/// thousand, because means add up to the mean step and medians do not; for
/// messages between processes, of each link and of all, the lower quartile of
/// the time from departure to arrival, because longer times include waits for a
/// busy receiver. The first step of each plan, which allocates memory, does not
/// count once another one has been measured. In the form that `simulate
/// --costs` reads. Ops whose end the plan alone does not determine (reductions)
/// are left out.
class cost_samples {
 public:
  /// The ops of a step, by all ranks. Costs outlive a change of the plan.
  void add(const std::vector<ops_event>& step);
  /// One entry per line; empty before the first step. Op costs are for one
  /// slice, message costs for a full microbatch.
  std::string entries() const;
  /// The costs of the ops and messages of the last step's plan.
  op_costs costs() const;
  /// Whether these kinds have been measured of each stage that has run a
  /// forward.
  bool covers(std::initializer_list<plan_op_kind> kinds) const;
  /// The same, with the mean step beside what the simulator makes of
  /// the costs; empty before the first step.
  std::string text() const;

 private:
  using samples = std::deque<double>;
  static void add(samples& to, double ms);
  void add_message(const plan_op& reader, double ms);

  std::shared_ptr<const plan> plan_;  // that the last step ran
  std::map<std::pair<std::int32_t, plan_op_kind>, samples> of_stage_;
  samples messages_;  // of all links
  std::map<rank_pair, samples> of_link_;
  samples steps_;
  bool only_first_ = false;  // step
};

/// Writes the costs to a file when it finishes, whole or not at all.
monitor cost_monitor(std::string path);

}  // namespace troupe
