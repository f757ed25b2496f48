#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "troupe/actors/held_stages.hpp"
#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/actors/recording/graph_steps.hpp"
#include "troupe/actors/run_plans.hpp"
#include "troupe/actors/sequence_generator.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/actors/trainer_setup.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"

namespace troupe {

/// The parts of a trainer, and how far its run is.
struct trainer::impl {
  impl(const model& layers, trainer_options options);

  step_settings next_settings() const;
  step_report run(const step_settings& settings, const source_pointer& source);
  void note(const step_report& report);
  /// Takes up what the leading process has announced, before the next training
  /// step.
  void take_up_changes();
  void rehost(std::vector<std::int32_t> hosting);
  /// Throws `invalid_argument` for a layout that links between devices can't
  /// have; any thread.
  void require_movable(const job_layout& next) const;

  const model layers;
  trainer_setup setup;
  run_plans plans;
  held_stages stages;
  std::shared_ptr<device_links> links;
  std::unique_ptr<graph_steps> graphs;  // null: all steps run op by op
  pipeline actors;                      // ends before what they run
  sequence_generator generator;
  std::vector<std::string> names;  // of all modules and parameters of the job
  std::int64_t parameter_count = 0;
  troupe::loss_scale scale;
  std::int64_t step = 0;
  std::int64_t position = 0;
  bool saves = false;  // all processes are asked to save
  /// Guards the hosting, which the thread that runs steps changes, and the next
  /// one.
  std::mutex hosting_mutex;
  std::vector<std::int32_t> next_hosting;  // empty: no other one
};

}  // namespace troupe
