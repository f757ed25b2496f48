#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

// The plans that a trainer runs, of its options.

/// The one that trains: the given one, or the schedule's, with the overlap that
/// the options want. `tied`: the stages that hold tied parameters, ascending.
plan_pointer training_plan(const trainer_options& options,
                           const stage_graph& graph,
                           const std::vector<std::int32_t>& tied);

/// The leading process's plan, on all processes of a job, each of which calls
/// it; null on all if the leading process has none. Throws `transport`.
plan_pointer share_plan(mesh& job, plan_pointer of_leader);

/// The forwards of the schedule.
plan_pointer evaluation_plan(const trainer_options& options,
                             const stage_graph& graph);

/// A step that generates so many tokens for each microbatch; sharded parameters
/// are whole meanwhile.
plan_pointer compile_generation(const trainer_options& options,
                                const stage_graph& graph,
                                std::int32_t microbatches,
                                std::int32_t positions);

/// Those plans that ran last. All processes of a job keep the same ones, as
/// they generate the same.
class generation_plans {
 public:
  static constexpr std::size_t most = 16;

  /// Null: it is not there.
  plan_pointer find(std::int32_t microbatches, std::int32_t positions);
  /// Forgets the one whose last use is longest ago, if there are too many.
  void keep(plan_pointer made);
  std::size_t size() const { return kept_.size(); }

 private:
  std::vector<plan_pointer> kept_;  // the last one first
};

}  // namespace troupe
