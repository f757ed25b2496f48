#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/stage/model.hpp"
#include "troupe/schedules/stage_graph.hpp"

namespace troupe {

/// What a layer reads, by the number of the layer that gives it.
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

/// What one stage gives to another: each tensor travels once, in one message.
/// Gradients travel back one for each use, so that the giving stage adds those
/// of all stages in the order of an unsplit model: by descending layer.
struct stage_crossing {
  struct use {
    std::int32_t reader = 0;  // layer
    std::size_t tensor = 0;   // in `tensors`
    std::int32_t index = 0;   // of the layer's outputs
  };
  std::int32_t stage = 0;  // the other
  /// Single tensors ascending, then perhaps all outputs of one layer.
  std::vector<layer_read> tensors;
  /// By ascending reader, then perhaps all outputs as a whole.
  std::vector<use> uses;

  /// The tensors of each use from those of the message; `labels` are those of
  /// the model's layers. Throws `mismatch` for a message of too few or too many
  /// tensors, `invalid_argument` naming the reader for an output that is not
  /// there.
  tensor_lists by_use(const tensor_list& message,
                      const std::vector<std::string>& labels) const;
};

/// What a stage takes from others and gives to others; by ascending stage.
struct stage_interface {
  std::vector<stage_crossing> inputs, outputs;
};

stage_interface interface_of(const model& layers, const stage_split& split,
                             std::int32_t stage);

/// The stages of a split model, and which read which.
stage_graph graph_of(const model& layers, const stage_split& split);

/// Whether a stage reads the model's inputs or computes a loss. The model's
/// last stage always does.
bool reads_microbatch(const model& layers, const stage_split& split,
                      std::int32_t stage);

}  // namespace troupe
