#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/engine/stage/update/parameter_dtypes.hpp"

namespace troupe {

/// How often each tensor, or a view of its memory, was written in place.
std::vector<std::int64_t> versions_of(const tensor_list& tensors);

/// A stage's module: its layers, run one after the other. Parameters and
/// modules keep the names that they have in the unsplit model. Throws
/// `invalid_argument` naming a layer whose input or output has no tensor.
class layer_sequence final : public stage_module {
 public:
  layer_sequence(const model& layers, const stage_split& split,
                 std::int32_t stage);
  /// Holds the layers of a range, as if those before it were a stage, and those
  /// behind.
  layer_sequence(const model& layers, layer_range range);

  const stage_interface& interface() const { return interface_; }
  /// stage_crossing::by_use with the model's labels.
  tensor_lists by_use(const stage_crossing& crossing,
                      const tensor_list& message) const {
    return crossing.by_use(message, labels_);
  }

  struct result {
    tensor_lists sent;    // by crossing of interface().outputs
    tensor_list outputs;  // of the stage's last layer
    /// The losses of each layer that has any, the model's last layer first,
    /// then in the model's order; the names of all but that one begin with the
    /// layer's ("tower.loss").
    std::vector<std::vector<loss_term>> losses;
  };
  /// `uses`: the tensors of each use of each crossing of interface().inputs.
  /// `last_loss`: the loss of the model's last layer, unless it has its own;
  /// null: no losses are computed.
  result run(const tensor_lists& uses, const microbatch_data& data,
             const loss_function* last_loss = nullptr);

  /// Converts floating-point parameters and buffers, in place; the model's
  /// floating-point inputs are converted to `parameters` as they are read.
  void convert(const parameter_dtypes& to);

  /// `inputs`: the model's, or the outputs of the first stage that is read.
  tensor_list forward(const tensor_list& inputs) override;
  tensor_list forward(const tensor_list& inputs,
                      const tensor_arguments& arguments) override;
  bool reads_arguments() const override;
  bool reads_model_inputs() const;
  /// Names the first layer that does not run in slices, and why; empty if all
  /// do.
  std::string problem_in_slices() const;
  /// Whether the model's last layer is here.
  bool has_last() const { return has_last_; }

  /// The parameters, in model order, under their unsplit names.
  parameter_list parameters_by_name() const;
  /// The defined buffers, likewise.
  parameter_list buffers_by_name() const;
  /// Both, as PyTorch's `state_dict`.
  parameter_list state_dict() const;
  /// The modules with a name of their own, also those inside unnamed layers.
  std::vector<module_entry> modules_by_name() const;

 private:
  /// The source of an input of a layer: another layer of this stage, a use of a
  /// crossing, or the model's inputs.
  struct source {
    enum class kind { own_layer, use, model_inputs } from = kind::own_layer;
    std::size_t number = 0;
    std::int32_t index = layer_read::all;
  };
  struct own_layer {
    std::string name;
    std::shared_ptr<stage_module> module;
    std::string label;  // for errors
    std::vector<source> sources;
    loss_function loss;
    std::size_t last_reader = 0;  // after which its outputs are dropped
    /// Several layers, or a layer and a loss, use its outputs.
    bool shared = false;
    mutable bool watched = false;  // one forward was watched for random draws
  };

  void find_sources(const model& layers, const stage_split& split,
                    layer_range own);
  source source_of(const layer_read& read, const stage_split& split,
                   layer_range own, std::vector<std::size_t>& next_use) const;
  tensor_list inputs_of(const own_layer& layer, const tensor_lists& outputs,
                        const tensor_lists& uses,
                        const microbatch_data& data) const;
  tensor_list message_of(const stage_crossing& crossing,
                         const tensor_lists& outputs) const;
  static std::optional<std::vector<loss_term>> losses_within(
    const own_layer& layer, const loss_function& loss,
    const tensor_list& inputs, const microbatch_data& data);
  static void add_losses(const own_layer& layer, bool is_last,
                         std::vector<loss_term> terms, result& target);
  static tensor_list run(const own_layer& layer, const tensor_list& inputs,
                         const tensor_arguments& arguments);

  std::vector<std::string> labels_;  // of the model's layers
  stage_interface interface_;
  std::int32_t first_ = 0;  // index of the first layer in the model
  bool has_last_ = false;   // the model's last layer
  std::optional<at::ScalarType> input_dtype_;
  std::vector<own_layer> own_layers_;
};

}  // namespace troupe
