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
  /// By loss, for losses that weigh microbatches equally: the number of items
  /// of one microbatch, or slice.
  std::vector<std::pair<std::string, double>> equal_counts;
};

/// A value that an op leaves for a later one of the same stage, and that
/// nobody else looks into.
class stage_state {
 public:
  virtual ~stage_state() = default;
  /// Gives a context's tensors to the host's memory, by the device's
  /// `offloads` stream, and takes them back, by `reloads`, to memory of the
  /// compute stream, within whose scope both are called. The streams have
  /// waited for what they read. Null: a CPU. Throws `internal` where nothing is
  /// to be offloaded.
  virtual void offload(rank_device* device);
  virtual void reload(rank_device* device);
};

/// What an op reads of the stage's own values, or leaves; null: none.
struct stage_states {
  /// A forward's, for its B or I.
  std::shared_ptr<stage_state> context = {};
  /// An I's, for its W.
  std::shared_ptr<stage_state> deferred = {};
  /// The parameters that a forward has read, for its B or I.
  std::shared_ptr<stage_state> version = {};
  /// A slice's forward leaves it for the next slice's, a B or I for that of
  /// the slice before.
  std::shared_ptr<stage_state> carry = {};
  /// The forward's context will be offloaded.
  bool offloads = false;
};

/// What an op gives to other stages, and what it leaves for its own.
struct op_outputs {
  tensor_lists tensors;
  stage_states states = {};
  /// In generation, the tokens that a forward of the last stage has chosen;
  /// undefined: there are none any more.
  at::Tensor chosen = {};
};

/// One stage's forwards and backwards. All calls come from one thread at a
/// time, in the order of the plan.
class stage_compute {
 public:
  virtual ~stage_compute() = default;

  virtual void begin_step(const step_settings& settings) = 0;

  /// `inputs`: what the stages give that this one reads, by ascending stage.
  /// Returns what it gives to the stages that read it, by ascending stage,
  /// without a graph, and in training a context; keeps its losses. `states`:
  /// of a later slice the carry. `data`: of the whole microbatch, but in
  /// generation of the slice.
  virtual op_outputs forward(microbatch_key key, tensor_lists inputs,
                             const microbatch_data& data,
                             stage_states states) = 0;

  /// `kind` is B, I or W. `output_gradients`: from the stages that read its
  /// outputs, ascending; empty for W. `states`: the context and, of an earlier
  /// slice, the carry; of W what its I deferred. Returns the gradients for the
  /// stages whose outputs it read, ascending (none for W), undefined where
  /// there are none. B and W add to the gradients of the parameters.
  virtual op_outputs backward(op_kind kind, microbatch_key key,
                              tensor_lists output_gradients,
                              stage_states states) = 0;

  /// After the gradients part: keeps the losses, and throws `invalid_argument`
  /// for metrics of the model's own, which are computed on the host. After the
  /// update part: those losses are the step's.
  virtual stage_result end_step() = 0;

  /// Drops what the last step in parts has left, or a step that could not be
  /// recorded.
  virtual void drop_kept() {}

  /// Frees what is kept of generated sequences.
  virtual void forget_sequences() {}
};

/// One stage's parameters and their gradients; threads as `stage_compute`.
class stage_parameters {
 public:
  virtual ~stage_parameters() = default;

  /// Drops the previous step's gradients. An update uses those of the last step
  /// that ran in parts.
  virtual void begin_step(const step_settings& settings) = 0;

  /// In model order; shared handles.
  virtual const tensor_list& parameters() const = 0;
  /// Moves the gradients out: by parameter, undefined where there is none.
  virtual tensor_list take_gradients() = 0;
  /// Moves them back, reduced or not, as `put_gradients` (gradient_lists.hpp).
  virtual void put_gradients(tensor_list gradients, at::Tensor present) = 0;
  void put_gradients(tensor_list gradients) {
    put_gradients(std::move(gradients), {});
  }
  /// Moves them out for their reduction over replicas and copies;
  /// `put_gradients` takes the result.
  virtual collective_work begin_reduction();
  /// Moves them out for the sum of those that are tied, after their reduction;
  /// `put_gradients` takes the result. Throws `internal` if none are.
  virtual tied_sum begin_tied_sum();

  /// The powers of gradient_norm.hpp, for the norm of all stages.
  virtual std::vector<double> norm_powers() = 0;
  /// The parameter whose power is at this place.
  virtual std::string name_of_power(std::size_t place) const = 0;
  /// Publishes parameters and reduced gradients, if monitors want them.
  virtual void show() {}
  /// Multiplies the gradients by `factor`, then updates the parameters.
  virtual void update(double factor) = 0;

  /// The optimizer's state, between two steps; see optimizer.hpp.
  virtual optimizer_state state() const { return {}; }
  /// Copies such a state. Throws `invalid_checkpoint`.
  virtual void load_state(const optimizer_state&) {}

  /// Parameters were written to between two steps: what the optimizer keeps of
  /// their values is made anew.
  virtual void read_parameters() {}

  /// Where parameters are updated within a step: lets the ops that follow read
  /// a version, 0 of the step's begin or n of its n-th update. Versions ascend;
  /// those before are kept only by who holds them, and `last` tells that none
  /// will be asked for any more. Throws `internal` for a version that is not
  /// kept.
  virtual std::shared_ptr<stage_state> read_version(std::int32_t version,
                                                    bool last);
  /// The same version once more.
  virtual void read_again(const std::shared_ptr<stage_state>& version);

  /// At the end of a gradients part: for the updates that follow.
  virtual void keep_gradients() {}
  virtual void drop_kept() {}
};

class sharded_parameters;

/// The numeric work of a stage, driven by a stage actor; null in processes that
/// don't have it.
struct stage {
  std::shared_ptr<stage_compute> compute;
  std::shared_ptr<stage_parameters> parameters;
  /// The same parameters, if they are sharded; else null.
  std::shared_ptr<sharded_parameters> shards = {};

  explicit operator bool() const { return compute != nullptr; }
};

}  // namespace troupe
