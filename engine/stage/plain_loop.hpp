#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/learning_rate.hpp"
#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/loss_scale.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/optimizer.hpp"

namespace troupe {

class layer_sequence;

struct plain_options {
  std::int32_t microbatches = 1;
  std::int32_t data_parallel = 1;
  loss_function loss = cross_entropy_loss();
  optimizer_options optimizer = adamw{};
  learning_rate_schedule learning_rate;
  loss_scale_options loss_scale;
  double clip = 0;  // largest gradient norm; 0: no clipping
  std::optional<at::ScalarType> autocast;  // see autocast_scope
  /// Where it computes, on that one's compute stream; null: the CPU.
  std::shared_ptr<rank_device> device;
};

/// The oracle: the unsplit model in a plain loop with gradient accumulation,
/// one thread, no actors, no plan. Replicas are emulated one after the other:
/// each one's microbatches are summed apart, then added in ascending order
/// and divided. Every pipelined run must give the same bits.
///
/// On a device the host gives a step's work without a wait in between, up to
/// the gradients' norm; a step's work is done when `step` returns. The
/// calling thread launches. Errors are those of the model, of the data and,
/// as `error` (device), of the device.
class plain_loop {
 public:
  plain_loop(const model& layers, plain_options options);

  struct result {
    double loss = 0;  // mean over all that its terms count, as loss_term says
    double gradient_norm = 0;
    bool updated = true;
    std::int64_t tokens = 0;
  };
  using data_function = std::function<microbatch_data(std::int64_t index)>;

  /// One update; `at(k)` gives global microbatch k of this step, in the host's
  /// memory.
  result step(const data_function& at);
  /// Mean loss over `count` microbatches, as of a step, without gradients.
  double evaluate(const data_function& at, std::int64_t count);

  /// Handles, on the device: they change with the next step.
  parameter_list parameters() const;
  /// The model's outputs, without gradients, in the host's memory.
  tensor_list infer(const tensor_list& inputs);

 private:
  std::unique_ptr<stream_scope> enter() const;
  /// The sum that is optimised, and how many items it is the mean of.
  struct counted_loss {
    at::Tensor value;
    double count;
    at::Tensor counted;  // in place of `count`
  };
  counted_loss loss_of(const microbatch_data& data);
  void accumulate(const data_function& at, std::int32_t replica,
                  result& outcome);
  void note_loss(const counted_loss& loss);
  double take_losses();
  void average(std::vector<tensor_list> replicas);

  plain_options options_;
  std::shared_ptr<layer_sequence> module_;
  tensor_list values_;
  std::unique_ptr<optimizer> optimizer_;
  troupe::loss_scale scale_;
  std::int64_t step_ = 0;
  std::vector<counted_loss> losses_;
};

}  // namespace troupe
