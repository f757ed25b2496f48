#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"

namespace troupe {

class stage_module;

/// One layer of an unsplit model: the smallest part that a stage can hold.
struct layer {
  /// Dotted prefix of its parameters' names; empty: no prefix.
  std::string name;
  /// Makes the layer with its initial parameters: the same bits at each call,
  /// whatever else was made before (seed it separately).
  std::function<std::shared_ptr<stage_module>()> make;
};

/// An unsplit model, first layer first.
using model = std::vector<layer>;

/// Makes a layer anew. Throws `invalid_argument` naming a layer that can't be
/// made.
std::shared_ptr<stage_module> make_layer(const model& layers,
                                         std::size_t index);

/// Throws `invalid_argument` if two layers have one name.
void require_legal(const model& layers);

/// Throws `invalid_argument` if two parameters have one name.
void require_own_names(const parameter_list& parameters);

/// Contiguous layers [first, last) of a model.
struct layer_range {
  std::int32_t first = 0;
  std::int32_t last = 0;

  friend bool operator==(const layer_range&, const layer_range&) = default;
};

/// The layers of each stage, stage 0 first.
using stage_split = std::vector<layer_range>;

}  // namespace troupe
