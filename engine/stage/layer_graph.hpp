#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/stage/model.hpp"
#include "troupe/schedules/stage_graph.hpp"

namespace troupe {

/// A layer's read of the outputs of another one, by that one's index, or of the
/// model's inputs.
struct layer_read {
  static constexpr std::int32_t all = -1, model_inputs = -1;

  std::int32_t layer = model_inputs;
  std::int32_t index = all;  // one tensor, or all outputs

  friend auto operator<=>(const layer_read&, const layer_read&) = default;
};

/// The reads of each layer, in the order of its inputs. Throws
/// `invalid_argument` naming the layers: for a name that no layer has, for a
/// later layer, and for a cycle.
std::vector<std::vector<layer_read>> reads_of(const model& layers);

/// "layer 3 ('blocks.2')".
std::string label_of(const model& layers, std::size_t index);

/// The tensors that one stage sends to another: each travels once, in one
/// message. A gradient travels back for each use, so that the sending stage
/// adds those of all stages in the order of an unsplit model: by descending
/// layer.
struct stage_crossing {
  struct use {
    std::int32_t reader = 0;  // the layer
    std::size_t tensor = 0;   // index in `tensors`
    std::int32_t index = 0;   // among the outputs of the layer that is read
  };
  std::int32_t stage = 0;  // the other one
  /// Single tensors ascending; all outputs of a layer, if they travel, are
  /// last.
  std::vector<layer_read> tensors;
  /// Uses of single tensors by ascending reader; the use of all outputs of a
  /// layer, if there is one, is last.
  std::vector<use> uses;

  /// The tensors of each use from those of the message; `labels` are those of
  /// the model's layers. Throws `mismatch` for a message of too few or too many
  /// tensors, `invalid_argument` naming the reader for an output that does not
  /// exist.
  tensor_lists by_use(const tensor_list& message,
                      const std::vector<std::string>& labels) const;
};

/// The crossings from and to a stage, by ascending stage.
struct stage_interface {
  std::vector<stage_crossing> inputs, outputs;
};

stage_interface interface_of(const model& layers, const stage_split& split,
                             std::int32_t stage);

/// The stage that holds a layer.
std::int32_t stage_of_layer(const stage_split& split, std::int32_t layer);

/// The stages of a split model, and which read which.
stage_graph graph_of(const model& layers, const stage_split& split);

/// Whether a stage reads the model's inputs or computes a loss, as the model's
/// last stage always does.
bool reads_microbatch(const model& layers, const stage_split& split,
                      std::int32_t stage);

}  // namespace troupe
