#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/trainer.hpp"

namespace troupe {

// The plans that a trainer runs, of its options.

/// The one that trains: the given one, or the schedule's, with the overlap that
/// the options want. `tied`: the stages that hold tied parameters, ascending.
std::shared_ptr<const plan> training_plan(
  const trainer_options& options, const stage_graph& graph,
  const std::vector<std::int32_t>& tied);

/// The leading process's plan, on all processes of a job, each of which calls
/// it; null on all if the leading process has none. Throws `transport`.
std::shared_ptr<const plan> share_plan(mesh& job,
                                       std::shared_ptr<const plan> of_leader);

/// The forwards of the schedule.
std::shared_ptr<const plan> evaluation_plan(const trainer_options& options,
                                            const stage_graph& graph);

/// A step that generates so many tokens for each microbatch; sharded parameters
/// are whole meanwhile.
std::shared_ptr<const plan> compile_generation(const trainer_options& options,
                                               const stage_graph& graph,
                                               std::int32_t microbatches,
                                               std::int32_t positions);

/// Those plans that ran last. All processes of a job keep the same ones, as
/// they generate the same.
class generation_plans {
 public:
  static constexpr std::size_t most = 16;

  /// Null: it is not there.
  std::shared_ptr<const plan> find(std::int32_t microbatches,
                                   std::int32_t positions);
  /// Forgets the one whose last use is longest ago, if there are too many.
  void keep(std::shared_ptr<const plan> made);
  std::size_t size() const { return kept_.size(); }

 private:
  std::vector<std::shared_ptr<const plan>> kept_;  // the last one first
};

}  // namespace troupe
