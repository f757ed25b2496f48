#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/job/admission.hpp"
#include "troupe/actors/job/device_links.hpp"
#include "troupe/actors/job/run_devices.hpp"
#include "troupe/actors/job/state_copies.hpp"
#include "troupe/actors/step/execution_options.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/parameters/sharding.hpp"
#include "troupe/engine/stage/stage.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe {

/// The stages of a run that live in this process, and how the run executes.
struct pipeline_options {
  /// The same for all plans that will run.
  placement places;
  /// The processes of the job, of which this is one; null: this one alone.
  std::shared_ptr<mesh> job;
  /// Which process hosts which rank, as in trainer_options.
  std::vector<std::int32_t> hosting;
  /// The plans that a job will run: other processes may begin one before this
  /// process does.
  std::shared_ptr<job_plans> plans;
  /// stages[data rank][instance], as `placement::instances` lists them; null
  /// where they live in other processes.
  std::vector<std::vector<stage>> stages;
  /// By stage: whether it reads a microbatch's inputs, targets or arguments.
  std::vector<bool> needs_data;
  /// By stage: whether it computes losses.
  std::vector<bool> has_losses;
  item_counter counter;  // null: no loss counts its items beforehand
  /// By trained tie: the stages of its holders, in model order.
  std::vector<std::vector<std::int32_t>> ties;
  run_devices devices;  // of the stages; empty: the CPU
  /// Links to devices of other processes; null: tensors go there by the host.
  std::shared_ptr<device_links> links;
  /// Keeps copies of states that other processes send.
  std::shared_ptr<state_copies> kept;
  bool heals_ops = false;  // as in healing_options
  numerics arithmetic;
  sharding_options sharding;
  execution_options execution;

  job_layout layout() const;
};

}  // namespace troupe
