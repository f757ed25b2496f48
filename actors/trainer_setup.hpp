#pragma once

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// What the parts of a trainer share. Only the hosting changes while it lives.
struct trainer_setup {
  /// Throws `invalid_argument` for options, or a model, that can't be trained.
  trainer_setup(const model& layers, trainer_options wanted);

  /// The layout of this job with another hosting. Throws `invalid_argument` as
  /// `make_layout` does.
  job_layout layout_with(std::vector<std::int32_t> hosting) const;

  const placement& places() const { return options.schedule.placement; }
  /// Shards of a stage's parameters; 1: they are whole.
  std::int32_t shards() const {
    return options.sharding.shards_of(options.data_parallel);
  }
  /// Between two steps no process holds whole parameters.
  bool releases() const { return options.sharding.mode == shard_mode::all; }
  mesh* job() const { return options.job.get(); }

  trainer_options options;
  parameter_groups groups;  // as the options had them: not yet the owners'
  job_layout layout;
  stage_split ranges;
  parameter_ties ties;  // that are trained
  /// Tied parameters: the owner's name by that of each other holder.
  alias_names aliases;
  stage_graph graph;
};

}  // namespace troupe
