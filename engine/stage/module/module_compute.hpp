#pragma once

#include <map>
#include <memory>
#include <optional>

#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/module/saved_forward.hpp"
#include "troupe/engine/stage/module/split_backward.hpp"
#include "troupe/engine/stage/module/step_losses.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/parameters/sharded_parameters.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"
#include "troupe/engine/stage/random_draws.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

class layer_sequence;

struct module_stage_options {
  std::int32_t index = 0;
  std::int32_t data_rank = 0;
  std::int32_t rank = 0;
  troupe::numerics numerics;
  /// The parameters are updated within a step.
  bool keeps_versions = false;
  /// The shard of the parameters that is kept; none: all of them.
  std::optional<shard_place> shards = {};
  /// The model's trained ties; `numerics` has their owners' settings.
  parameter_ties ties = {};
  /// The device of the parameters and tensors; null: the CPU. The stage is made
  /// and its ops are called within the device's compute stream.
  std::shared_ptr<rank_device> device = {};
  /// Receives the values that monitors of the step want to see.
  observer::publisher publish;
};

/// A stage made of LibTorch modules: its outputs are detached, and backward
/// runs LibTorch's engine from there.
class module_compute final : public stage_compute {
 public:
  module_compute(std::shared_ptr<layer_sequence> module,
                 module_stage_options options);

  void begin_step(const step_settings& settings) override;
  op_outputs forward(microbatch_key key, tensor_lists inputs,
                     const microbatch_data& data, stage_states states) override;
  op_outputs backward(op_kind kind, microbatch_key key,
                      tensor_lists output_gradients,
                      stage_states states) override;
  bool has_hit() override;
  bool changed_buffers() const override;
  stage_result end_step() override;
  void drop_kept() override { losses_.drop(); }
  void forget_sequences() override { sequences_.clear(); }
  /// Makes `show_parameters` publish the parts of a shard.
  void observe_shard(const std::vector<parameter_part>& parts,
                     const shard_place& place) {
    observer_.observe_shard(parts, place.shard, place.shards);
  }
  /// Which the release of sharded parameters clears; null without autocast.
  const weight_casts::pointer& casts() const { return casts_; }
  /// Publishes parameters and gradients, if monitors want them.
  void show_parameters();

 private:
  struct forward_result {
    tensor_lists sent;
    tensor_list outputs;  // of the model's last layer, in generation
    saved_forward saved;
    std::vector<loss_term> losses;
  };
  tensor_lists leaves_of(const tensor_lists& inputs) const;
  forward_result run(tensor_lists leaves, const microbatch_data& data);
  op_outputs forward_slice(microbatch_key key, tensor_lists inputs,
                           const microbatch_data& data,
                           slice_carry_pointer earlier, bool offloads);
  std::shared_ptr<saved_tensors> saved_for_offload() const;
  void watch(const op_outputs& outputs);
  void require_same_buffers(const std::vector<std::int64_t>& versions) const;
  forward_result run_observed(microbatch_key key, const tensor_lists& inputs,
                              const microbatch_data& data,
                              const slice_carry_pointer& earlier,
                              observer::pass pass);
  op_outputs continue_sequences(microbatch_key key, const tensor_lists& inputs,
                                const microbatch_data& data,
                                slice_carry_pointer earlier);
  void drop_ended_batches();
  slice_carry_pointer take_sequences(std::int64_t batch);
  at::Tensor choose(std::int64_t batch, const tensor_list& outputs);
  void run_again(microbatch_key key, saved_forward& saved);
  backward_roots roots_of(const saved_forward& saved,
                          const tensor_lists& gradients,
                          const slice_carry* later) const;
  op_outputs run_engine(op_kind kind, saved_forward& saved,
                        const tensor_lists& gradients,
                        const slice_carry* later);
  tensor_list input_gradients(saved_forward& saved, backward_roots roots,
                              const tensor_list& leaves, stage_states& states);
  template <class State>
  State& state_of(const std::shared_ptr<stage_state>& base_state,
                  microbatch_key key) const;
  weight_split split_of(const weight_gradients& store,
                        const tensor_list& leaves) const;
  tensor_lists by_crossing(const tensor_lists& leaves,
                           const tensor_list& gradients) const;
  event_source source_of(microbatch_key key) const;
  random_draws draws_of(microbatch_key key) const;
  std::int64_t number_of(microbatch_key key) const;
  bool counts(microbatch_key key) const;
  void save_losses(const std::vector<loss_term>& terms,
                   const microbatch_data& data, saved_forward& saved) const;

  std::shared_ptr<layer_sequence> module_;
  module_stage_options options_;
  /// A use of an output by a layer of a later stage.
  struct output_use {
    std::int32_t reader = 0;   // the layer
    std::size_t use = 0;       // counted over all crossings
    std::size_t crossing = 0;  // index
    std::size_t first = 0;     // of the use's gradients among the crossing's
  };
  /// Sorted by descending reader and use, which is the order in which an
  /// unsplit model adds gradients.
  std::vector<output_use> output_uses_;
  tensor_list parameters_;  // the trained ones
  tensor_list buffers_;
  std::vector<std::int64_t> buffer_versions_;  // as the step began
  observer observer_;
  step_settings settings_;
  stage_result result_;
  step_losses losses_;
  weight_casts::pointer casts_;                            // null: no autocast
  std::map<std::int64_t, slice_carry_pointer> sequences_;  // by batch
};

/// Makes a stage of LibTorch modules, whose frozen parameters get no gradients.
/// Call it within the device's compute stream.
stage make_module_stage(const std::shared_ptr<layer_sequence>& module,
                        const module_stage_options& options);

}  // namespace troupe
