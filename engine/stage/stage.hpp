#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/stage/collective_work.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/step_settings.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

class rank_device;

/// A stage's report at the end of its part of a step.
struct stage_result {
  std::vector<named_value> losses;
  std::vector<named_value> metrics;
  std::int64_t observe_ns = 0;  // time spent on monitors
  /// For each loss that weighs microbatches equally, the number of items of one
  /// microbatch, or slice.
  std::vector<std::pair<std::string, double>> equal_counts;
  /// Forwards wrote to buffers: the step can't be run again as it was.
  bool changed_buffers = false;
};

/// A value that an op leaves for a later one of the same stage, opaque to all
/// others.
class stage_state {
 public:
  virtual ~stage_state() = default;
  /// Copies a context's tensors to the host's memory, by the device's
  /// `offloads` stream, and back, by `reloads`, to memory of the compute
  /// stream, within whose scope both are called. The streams have waited for
  /// what they read. `device`: null: the CPU. Throws `internal` for a state
  /// that is not to be offloaded.
  virtual void offload(rank_device* device);
  virtual void reload(rank_device* device);
};

/// The stage's own values that an op reads or leaves; null: none.
struct stage_states {
  /// A forward leaves it for its B or I.
  std::shared_ptr<stage_state> context = {};
  /// An I leaves it for its W.
  std::shared_ptr<stage_state> deferred = {};
  /// The parameters that a forward has read, for its B or I.
  std::shared_ptr<stage_state> version = {};
  /// A slice's forward leaves it for the next slice's, and a slice's B or I for
  /// that of the slice before.
  std::shared_ptr<stage_state> carry = {};
  /// The forward's context will be offloaded.
  bool offloads = false;
};

/// The tensors of an op for other stages, and its values for the own one.
struct op_outputs {
  tensor_lists tensors;
  stage_states states = {};
  /// In generation, the tokens that a forward of the last stage has chosen;
  /// undefined: the sequences have ended.
  at::Tensor chosen = {};
};

/// The forwards and backwards of a stage. All calls come from one thread at a
/// time, in the order of the plan.
class stage_compute {
 public:
  virtual ~stage_compute() = default;

  virtual void begin_step(const step_settings& settings) = 0;

  /// `inputs`: the outputs of the stages that this one reads, by ascending
  /// stage. `data`: of the whole microbatch, but in generation of the slice.
  /// `states`: for a later slice the carry. Returns the outputs for the stages
  /// that read this one, by ascending stage, without a graph, and in training a
  /// context; keeps its losses.
  virtual op_outputs forward(microbatch_key key, tensor_lists inputs,
                             const microbatch_data& data,
                             stage_states states) = 0;

  /// `kind` is B, I or W. `output_gradients`: from the stages that read its
  /// outputs, ascending; empty for W. `states`: the context and, for an earlier
  /// slice, the carry; for W the values that its I has deferred. Returns the
  /// gradients for the stages whose outputs it read, ascending (none for W),
  /// undefined where there are none. B and W add to the gradients of the
  /// parameters.
  virtual op_outputs backward(op_kind kind, microbatch_key key,
                              tensor_lists output_gradients,
                              stage_states states) = 0;

  /// In a watched step (step_reading), whether something that has left an op of
  /// this step, or a loss, is not finite; waits for the device.
  virtual bool has_hit() { return false; }
  /// Whether forwards of this step have written to buffers.
  virtual bool changed_buffers() const { return false; }

  /// Returns the stage's report. After the gradients part it keeps the losses
  /// for the report after the update part, and throws `invalid_argument` for
  /// metrics of the model's own, which are computed on the host.
  virtual stage_result end_step() = 0;

  /// Drops the losses of the last step in parts, or of one that could not be
  /// recorded.
  virtual void drop_kept() {}

  /// Frees the caches of generated sequences.
  virtual void forget_sequences() {}
};

/// The parameters of a stage and their gradients; threads as `stage_compute`.
class stage_parameters {
 public:
  virtual ~stage_parameters() = default;

  /// Drops the previous step's gradients. An update uses those of the last step
  /// that ran in parts.
  virtual void begin_step(const step_settings& settings) = 0;

  /// Shared handles, in model order.
  virtual const tensor_list& parameters() const = 0;
  /// Moves the gradients out, by parameter, undefined where there is none.
  virtual tensor_list take_gradients() = 0;
  /// Moves gradients in, reduced or not, as `put_gradients`
  /// (gradient_lists.hpp). `present`: as in member_gradients.
  virtual void put_gradients(tensor_list gradients, at::Tensor present) = 0;
  /// Moves the gradients out for their reduction over replicas and copies;
  /// `put_gradients` takes the result.
  virtual collective_work begin_reduction();
  /// Moves the gradients out for the sum of the tied ones, after their
  /// reduction; `put_gradients` takes the result. Throws `internal` if none are
  /// tied.
  virtual tied_sum begin_tied_sum();

  /// The powers of gradient_norm.hpp, for the norm of all stages.
  virtual std::vector<double> norm_powers() = 0;
  /// The name of the parameter whose power is at this place.
  virtual std::string name_of_power(std::size_t place) const = 0;
  /// Publishes parameters and reduced gradients, if monitors want them.
  virtual void show() {}
  /// Multiplies the gradients by `factor`, then updates the parameters.
  virtual void update(double factor) = 0;

  /// The optimizer's state, between two steps; see optimizer.hpp.
  virtual optimizer_state state() const { return {}; }
  /// Copies such a state. Throws `invalid_checkpoint`.
  virtual void load_state(const optimizer_state&) {}

  /// Renews the optimizer's copies of parameters, which were written to between
  /// two steps.
  virtual void read_parameters() {}

  /// Where parameters are updated within a step, lets the ops that follow read
  /// the version after so many updates. Versions ascend; those before are kept
  /// only by the holders of the result, and none is asked for after the `last`.
  /// Throws `internal` for a version that is not kept.
  virtual std::shared_ptr<stage_state> read_version(std::int32_t updates,
                                                    bool last);
  /// Lets the ops that follow read an earlier result again.
  virtual void read_again(const std::shared_ptr<stage_state>& version);

  /// Keeps the gradients at the end of a gradients part, for the updates that
  /// follow.
  virtual void keep_gradients() {}
  virtual void drop_kept() {}
};

class sharded_parameters;

/// The numeric work of a stage, driven by a stage actor; null in processes that
/// don't have it.
struct stage {
  std::shared_ptr<stage_compute> compute;
  std::shared_ptr<stage_parameters> parameters;
  /// These parameters, if they are sharded; else null.
  std::shared_ptr<sharded_parameters> shards = {};

  explicit operator bool() const { return compute != nullptr; }
};

}  // namespace troupe
