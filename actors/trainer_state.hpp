#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/job/job_parameters.hpp"
#include "troupe/actors/recording/graph_steps.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/actors/trainer_plans.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

class sequence_batches;

/// The layers of each instance of a stage, as `placement::instances` lists
/// them; null where they live in other processes.
using replica = std::vector<std::shared_ptr<layer_sequence>>;

/// Parameters of one copy of all stages, as far as they live here, under their
/// names, in model order.
parameter_list parameters_of(const replica& instances, std::int32_t stages,
                             std::int8_t copy = 0);
/// Names of the modules and parameters that live here, each once.
std::vector<std::string> names_of(const std::vector<replica>& replicas);
/// Those of the first copy, and its buffers.
parameter_list state_dict_of(const replica& instances, std::int32_t stages);

/// By replica, copy, then in model order. `stages`: of each copy.
std::vector<parameter_here> parameters_of(const std::vector<replica>& replicas,
                                          const placement& stages,
                                          const alias_names& aliases);

/// What a trainer holds, and how that is made of its options.
struct trainer::impl {
  impl(const model& layers, trainer_options given);

  void take_ties(const model& layers);
  module_stage_options stage_options(std::int32_t data_rank,
                                     stage_instance which) const;
  void make_stages(const model& layers);
  stage make_stage(std::int32_t data_rank, stage_instance which,
                   const std::shared_ptr<layer_sequence>& module) const;
  void require_slices() const;
  /// Throws `invalid_argument` for a model that can't continue sequences.
  void require_generation() const;
  plan_pointer generation_plan(std::int32_t microbatches,
                               std::int32_t positions);
  void share_chosen(sequence_batches& work, std::int32_t microbatches) const;
  bool generation_step_of(const std::shared_ptr<sequence_batches>& batches,
                          const generation_listener& told);
  void forget_sequences();
  void start_actors(const model& layers);
  step_settings next_settings() const;
  /// Shards of a stage's parameters; 1: they are whole.
  std::int32_t shards() const;
  tensor_list shared(tensor_list own, stage_instance which,
                     std::int32_t data_rank) const;
  void gather_shards(stage_instance which, std::int32_t first);
  /// Between two steps: whole parameters in all replicas, and sharded again;
  /// nothing if they stay whole. All processes of a job call `make_whole`.
  void make_whole();
  void release_whole();
  /// Sharded parameters are whole while it lives.
  class whole_scope {
   public:
    explicit whole_scope(impl& of) : of_(of) { of_.make_whole(); }
    whole_scope(const whole_scope&) = delete;
    whole_scope& operator=(const whole_scope&) = delete;
    ~whole_scope() { of_.release_whole(); }

   private:
    impl& of_;
  };
  /// Copies, if the parameters are about to be sharded again.
  parameter_list kept(parameter_list whole) const;
  /// Takes up what was written to whole parameters.
  void take_shards();
  void read_parameters();
  /// The state of whole parameters of the first replica; empty where that lives
  /// elsewhere. Where they are sharded, all processes of a job make the call.
  optimizer_state optimizer_state_of(stage_instance which) const;
  /// A stage that lives here.
  void restore(const stored_checkpoint& from, std::int32_t data_rank,
               stage_instance which);
  /// Before a training step: all processes of a job at the same one.
  void take_up_plan();
  bool reads_data(std::int32_t stage) const;
  const placement& places() const { return options.schedule.placement; }
  std::vector<parameter_here> held() const {
    return parameters_of(replicas, places(), aliases);
  }

  trainer_options options;
  job_layout layout;
  stage_split ranges;
  parameter_ties ties;  // that are trained
  /// Tied parameters: the owner's name by that of each other holder.
  alias_names aliases;
  /// Guards `training`, which the thread that runs steps changes, and `next`.
  mutable std::mutex planning;
  plan_pointer training;
  plan_pointer next;  // null: no other one
  std::shared_ptr<job_plans> known_plans;
  bool replans = false;  // all processes know that there is a next one
  bool saves = false;    // all processes are asked to save
  plan_pointer evaluation;
  troupe::generation_plans generation_plans;
  std::int64_t next_batch = 0;  // of sequences
  run_devices devices;
  std::shared_ptr<troupe::device_links> links;
  std::vector<replica> replicas;
  std::vector<std::string> names;  // of all modules and parameters of the job
  tensor_list buffers;  // of the modules here, which forwards may change
  std::vector<std::int64_t> buffer_versions;  // before the last step
  /// Filled once the actors are there; stages publish through them.
  struct outlets {
    observer::publisher publish;
  };
  std::shared_ptr<outlets> to_monitors = std::make_shared<outlets>();
  std::vector<std::vector<stage>> stages;
  std::unique_ptr<graph_steps> graphs;  // null: all steps run op by op
  std::unique_ptr<pipeline> actors;     // ends before what they run
  troupe::loss_scale scale;
  std::int64_t parameter_count = 0;
  std::int64_t step = 0;
  std::int64_t position = 0;
};

}  // namespace troupe
