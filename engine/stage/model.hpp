#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

/// One layer of an unsplit model: the smallest part that a stage can hold.
struct layer {
  /// Dotted prefix of its parameters' names; empty: their own names count.
  std::string name;
  /// Makes the layer with its initial parameters: the same bits at each call,
  /// whatever else was made before (seed it by itself).
  std::function<std::shared_ptr<stage_module>()> make;
};

/// An unsplit model, first layer first.
using model = std::vector<layer>;

/// Contiguous layers [first, last) of a model.
struct layer_range {
  std::int32_t first = 0;
  std::int32_t last = 0;

  friend bool operator==(const layer_range&, const layer_range&) = default;
};

/// The layers of each stage, stage 0 first.
using stage_split = std::vector<layer_range>;

/// A stage's module: its layers in a row. Parameters and modules keep the
/// names that they have in the unsplit model.
class layer_sequence final : public stage_module {
 public:
  layer_sequence(const model& layers, layer_range range);

  tensor_list forward(const tensor_list& inputs) override;
  tensor_list forward(const tensor_list& inputs,
                      const tensor_arguments& arguments) override;
  bool reads_arguments() const override;

  /// Parameters in model order, under their unsplit names.
  parameter_list parameters_by_name() const;
  /// Modules with a name of their own, those of unnamed layers' insides too.
  std::vector<module_entry> modules_by_name() const;

 private:
  struct part {
    std::string name;
    std::shared_ptr<stage_module> module;
  };
  std::vector<part> parts_;
};

}  // namespace troupe
