#pragma once

#include <cstdint>
#include <vector>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/model.hpp"

namespace troupe {

/// Splits layers into contiguous stages so that the heaviest stage is as light
/// as possible; on ties, earlier stages take more layers. `costs` holds one
/// value per layer, in any unit (parameters, measured seconds). Throws
/// invalid_argument if there are more stages than layers.
stage_split split_by_cost(const std::vector<double>& costs,
                          std::int32_t stages);

/// Splits by the number of layers of each stage. Throws invalid_argument if
/// they don't add up to `layers` or a stage is empty.
stage_split split_by_hand(std::int32_t layers,
                          const std::vector<std::int32_t>& counts);

/// Spreads the model's blocks evenly, earlier stages taking more. The layers
/// before the blocks go to the first stage, those after them to the last, as in
/// the usual pipeline implementations. Throws invalid_argument if there are
/// more stages than blocks.
stage_split split_evenly(std::int32_t layers, layer_range blocks,
                         std::int32_t stages);

/// The number of parameters of each layer (makes each layer once).
std::vector<double> parameter_counts(const model& layers);

/// Seconds of one forward and backward of each layer on these inputs
/// (the median of `repeats`), for `split_by_cost`. Throws invalid_argument
/// without a repeat.
std::vector<double> measured_costs(const model& layers,
                                   const tensor_list& inputs, int repeats = 5);

/// Splits evenly by parameters.
stage_split split(const model& layers, std::int32_t stages);

}  // namespace troupe
