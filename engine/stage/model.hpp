#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/loss.hpp"

namespace troupe {

class stage_module;

/// A tensor that a layer reads: one of an earlier layer's outputs, or one of
/// the model's inputs (no layer).
struct layer_output {
  std::string layer{};
  std::int32_t index = 0;
};
inline layer_output model_input(std::int32_t index = 0) {
  return {{}, index};
}

/// A layer's parameter that is another layer's, too, as a GPT's head may be its
/// embedding. Each of the layers holds a tensor of its own; the values stay
/// equal, as the sum of all their gradients updates each (ties.hpp). Names are
/// those of the unsplit model.
struct tied_parameter {
  std::string name{};
  std::string owner{};  // of the same layer or an earlier one
};

/// A layer of an unsplit model: the smallest part that a stage can hold.
struct layer {
  /// The dotted prefix of its parameters' names; empty: no prefix.
  std::string name{};
  /// Makes the layer with its initial parameters: the same bits at each call,
  /// whatever else was made before (seed it separately).
  std::function<std::shared_ptr<stage_module>()> make{};
  /// The inputs of its `forward`, in that order. Empty: all outputs of the
  /// layer before, or all of the model's inputs for the first layer.
  std::vector<layer_output> reads{};
  /// The losses of this layer's outputs, reported under the layer's name
  /// ("tower" and "loss": "tower.loss"). Null: none, or for the last layer
  /// those of the trainer's options, which keep their names.
  loss_function loss{};
  /// The layer's parameters that are tied to others: they have the values, the
  /// settings and the place in files of these.
  std::vector<tied_parameter> ties{};
  /// Makes the layer on the meta device, with the names, shapes, dtypes and
  /// `requires_grad` of the one that `make` returns: where nothing else is
  /// needed, as to count parameters, no values are drawn or read. Null: `make`
  /// is called.
  std::function<std::shared_ptr<stage_module>()> make_on_meta{};
};

/// An unsplit model: its layers in the order in which they run. Without `reads`
/// they are a chain; with them any acyclic graph.
using model = std::vector<layer>;

/// Makes a layer anew. Throws `invalid_argument` naming a layer that can't be
/// made.
std::shared_ptr<stage_module> make_layer(const model& layers,
                                         std::size_t index);

/// Makes a layer for the names, shapes, dtypes and `requires_grad` of its
/// parameters, which may be on the meta device. Throws as `make_layer`.
std::shared_ptr<stage_module> make_layer_shapes(const model& layers,
                                                std::size_t index);

/// Throws `invalid_argument` if there is no layer, if two have one name, if one
/// reads what no earlier layer gives, or if one with a loss, but the last, has
/// no name.
void require_legal(const model& layers);

/// "blocks.0" and "weight": "blocks.0.weight"; or the one that is not empty.
std::string dotted_name(const std::string& prefix, const std::string& name);

/// The parameters of a layer's module, under their unsplit names.
parameter_list parameters_of(const std::string& layer_name,
                             const stage_module& module);
/// The module's defined buffers, likewise.
parameter_list buffers_of(const std::string& layer_name,
                          const stage_module& module);

/// Throws `invalid_argument` if two parameters or buffers have one name.
void require_own_names(const parameter_list& tensors);

/// Checks that the parameters of a run's modules are different tensors: two
/// stages or replicas that held one would update it at once. Used by one
/// thread.
class distinct_parameters {
 public:
  /// Throws `invalid_argument` with the names if a parameter was there already
  /// (a `make` that returned one module twice, or a submodule under two names),
  /// or if elements of one overlap in memory (an expanded tensor) or have gaps
  /// between them (a view).
  void add(const parameter_list& parameters);

 private:
  std::map<const void*, std::string> names_;
};

/// Contiguous layers [first, last) of a model.
struct layer_range {
  std::int32_t first = 0;
  std::int32_t last = 0;

  friend bool operator==(const layer_range&, const layer_range&) = default;
};

/// The layers of each stage, stage 0 first.
using stage_split = std::vector<layer_range>;

}  // namespace troupe
