#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/job/job_parameters.hpp"
#include "troupe/actors/job/run_devices.hpp"
#include "troupe/actors/job/state_copies.hpp"
#include "troupe/actors/trainer_setup.hpp"
#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

namespace troupe {

/// The stages of all replicas that live in this process: their modules,
/// parameters and optimizers, between two steps. Where parameters are sharded,
/// calls that read or write whole ones gather them first: all processes of a
/// job make these calls. One thread at a time, while no step runs.
class held_stages {
 public:
  /// By replica and instance (`placement::instances`); null where a stage lives
  /// in another process.
  using stage_lists = std::vector<std::vector<stage>>;

  /// The setup outlives it. Throws `invalid_argument` for modules that can't be
  /// stages of this plan.
  held_stages(const trainer_setup& setup, const model& layers,
              const plan& training);

  const stage_lists& stages() const { return stages_; }
  const run_devices& devices() const { return devices_; }
  /// Stages publish tensors here from now on.
  void publish_to(observer::publisher publish);
  /// Whether a module here of this stage reads arguments of microbatches.
  bool reads_data(std::int32_t stage) const;
  /// Throws `invalid_argument` for modules that can't continue sequences.
  void require_generation() const;
  void forget_sequences();

  /// The names of modules and parameters here, each once.
  std::vector<std::string> names() const;
  std::vector<parameter_here> parameters_here() const;

  /// The parameters of the first replica's first copies, without aliases, in
  /// model order.
  parameter_list parameters() const;
  /// The parameters of all processes, for the leader; empty for others.
  parameter_list gather() const;
  /// See trainer.hpp.
  void load(const parameter_list& values, const std::string& origin);
  void check_replicas() const;
  std::map<std::int32_t, parameter_list> snapshot() const;
  void restore(const stored_checkpoint& from);
  tensor_list infer(const tensor_list& inputs) const;

  // Stages move to other processes, while no step runs; all processes of a job
  // make these calls, and give the setup the next layout after the first.

  /// Sends the states of the stages here that `next` has in other processes.
  void send_leaving(const job_layout& next) const;
  /// Drops those stages, and makes those that were elsewhere `before`, as a run
  /// begins with them.
  void take_up(const job_layout& before, const model& layers,
               const plan& training);
  /// Loads the states that were sent into the stages that were elsewhere.
  void receive_arrived(const job_layout& before);

  // States in host memory, for a job that heals; all processes of a job make
  // both calls.

  /// Copies of the states of all stages here, after a run's progress, in the
  /// memory of the oldest ones that are kept where it can be had.
  std::vector<frame> copies(const run_progress& progress,
                            state_copies& kept) const;
  /// Sends states to the stages' hosts, and loads and keeps those that come.
  void recover(const recovery& from, state_copies& own);

  /// Remembers the versions of the modules' buffers, which forwards may change.
  void note_buffers();
  bool buffers_changed() const;
  /// Whether ops write to what a checkpoint of the last step would read.
  bool ops_write_state() const;

  /// Sharded parameters are whole while it lives.
  class whole_scope {
   public:
    explicit whole_scope(const held_stages& of) : of_(of) { of_.make_whole(); }
    whole_scope(const whole_scope&) = delete;
    whole_scope& operator=(const whole_scope&) = delete;
    ~whole_scope() { of_.release_whole(); }

   private:
    const held_stages& of_;
  };

 private:
  /// A copy in the host's memory.
  at::Tensor on_host(const parameter_here& which) const;
  using replica = std::vector<std::shared_ptr<layer_sequence>>;
  struct outlet {
    observer::publisher publish;
  };

  void make_stages(const model& layers, const plan& training);
  void add_stage(std::int32_t data_rank, stage_instance which,
                 const model& layers, const plan& training);
  void drop_stage(std::int32_t data_rank, stage_instance which);
  void note_buffers_of(const layer_sequence& module);
  stage make_stage(std::int32_t data_rank, stage_instance which,
                   const std::shared_ptr<layer_sequence>& module,
                   bool keeps_versions) const;
  module_stage_options options_of(std::int32_t data_rank, stage_instance which,
                                  bool keeps_versions) const;
  void require_slices(const plan& training) const;
  const stage& stage_of(std::int32_t data_rank, stage_instance which) const;
  const std::shared_ptr<layer_sequence>& module_of(std::int32_t data_rank,
                                                   stage_instance which) const;
  template <class Visit>
  void for_each_stage(const Visit& visit) const;
  parameter_list copies_if_released(parameter_list whole) const;
  void read_parameters();
  void restore(const stored_checkpoint& from, std::int32_t data_rank,
               stage_instance which);

  // Shards; held_stages_shards.cpp.
  void make_whole() const;
  void release_whole() const;
  tensor_list shared(tensor_list own, stage_instance which,
                     std::int32_t data_rank) const;
  void gather_shards(stage_instance which, std::int32_t first) const;
  void take_shards();
  // Moves; held_stages_moves.cpp.
  frame state_of(std::int32_t data_rank, stage_instance which,
                 const run_progress& progress,
                 const std::optional<tensor_list>& older) const;
  void load_state(std::int32_t data_rank, stage_instance which,
                  const frame& from, std::int32_t process);
  optimizer_state optimizer_state_of(stage_instance which) const;

  const trainer_setup& setup_;
  run_devices devices_;
  std::vector<replica> replicas_;
  stage_lists stages_;
  tensor_list buffers_;
  std::vector<std::int64_t> buffer_versions_;  // before the last step
  std::shared_ptr<outlet> outlet_ = std::make_shared<outlet>();
};

/// Calls `visit(data_rank, which)` for those that live here.
template <class Visit>
void held_stages::for_each_stage(const Visit& visit) const {
  for (std::int32_t d = 0; d < setup_.options.data_parallel; ++d)
    for (const auto& which : setup_.places().instances())
      if (stage_of(d, which))
        visit(d, which);
}

}  // namespace troupe
