#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

/// Where the ranks of a run compute, by their numbers: data rank x ranks of a
/// pipeline + rank.
struct rank_places {
  std::vector<std::int32_t> process_of{};  // by rank
  /// By process: the processes of one group share its cores.
  std::vector<std::int32_t> group_of{};
  std::vector<double> cores{};  // by group: ops that run at once, >= 1
};

/// A step's ops as if each had had a core to itself: where more ranks of a
/// group compute than it has cores, they share them equally, and ops take
/// longer. Only their ends are changed.
std::vector<ops_event> undisturbed(std::vector<ops_event> step,
                                   const rank_places& places);

/// The costs of a run's ops, and how fast its processes are.
class hosting_samples {
 public:
  void clear();
  /// All ranks' ops of a step. The places are the same until it is cleared.
  void add(const std::vector<ops_event>& step, const rank_places& places);
  std::int64_t steps() const { return steps_; }

  struct result {
    /// For hosting_problem: medians, in seconds; messages between processes by
    /// the lower quartile, as longer ones waited for a busy receiver.
    op_costs costs{};
    /// By process, of its ops, 1 in the fastest; less where it takes at least a
    /// tenth longer for the same work. 1, too, if no other process does any of
    /// its work.
    std::vector<double> speeds{};
  };
  /// `work`: by stage; stages of equal numbers do the same work, as those of
  /// equally many parameters.
  result measured(const std::vector<std::int64_t>& work) const;

 private:
  using samples = std::deque<double>;
  using where = std::tuple<std::int32_t, std::int32_t, plan_op_kind>;
  std::vector<double> speeds_for(const std::map<where, double>& times,
                                 const std::vector<std::int64_t>& work) const;

  std::map<where, samples> ops_;  // by process, stage and kind
  samples messages_;
  std::int64_t steps_ = 0;
  std::size_t processes_ = 0;
};

}  // namespace troupe
