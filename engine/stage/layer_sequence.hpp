#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

/// A stage's module: its layers in sequence. Parameters and modules keep the
/// names that they have in the unsplit model. Throws `invalid_argument` naming
/// a layer whose input or output has no tensor.
class layer_sequence final : public stage_module {
 public:
  layer_sequence(const model& layers, layer_range range);

  tensor_list forward(const tensor_list& inputs) override;
  tensor_list forward(const tensor_list& inputs,
                      const tensor_arguments& arguments) override;
  bool reads_arguments() const override;

  /// Parameters in model order, under their unsplit names.
  parameter_list parameters_by_name() const;
  /// Modules with a name of their own, also those inside unnamed layers.
  std::vector<module_entry> modules_by_name() const;

 private:
  struct part {
    std::string name;
    std::shared_ptr<stage_module> module;
    std::string label;  // for errors
  };
  static tensor_list run(const part& which, const tensor_list& inputs,
                         const tensor_arguments& arguments);

  std::vector<part> parts_;
};

}  // namespace troupe
