#pragma once

#include <functional>
#include <map>
#include <memory>

#include "troupe/engine/stage/module/module_parameters.hpp"

namespace troupe {

/// Parameters that are updated several times within a step, while earlier
/// versions are still read (PipeDream's weight stashing, PipeDream-2BW). An
/// update makes a new version in new memory. What the modules read is the
/// version that was set last; a backward runs with its forward's.
///
/// A graph of LibTorch refers to a leaf, whose memory is replaced here, not
/// written: so that its version counter stays, and a backward reads whatever
/// the leaf holds then.
class versioned_parameters final : public module_parameters {
 public:
  /// As module_parameters.
  versioned_parameters(const parameter_list& parameters,
                       const numerics& options, std::vector<tied_gradient> tied,
                       std::shared_ptr<rank_device> device,
                       std::function<void()> publish);

  void begin_step(const step_settings& settings) override;
  void show() override;
  void update(double factor) override;
  std::shared_ptr<stage_state> read_version(std::int32_t version,
                                            bool last) override;
  void read_again(const std::shared_ptr<stage_state>& version) override;

 private:
  struct version;

  versioned_parameters(const parameter_list& parameters, parameter_list values,
                       const numerics& options, std::vector<tied_gradient> tied,
                       std::shared_ptr<rank_device> device,
                       std::function<void()> publish);

  void set(const tensor_list& values);
  std::shared_ptr<version> newest() const;

  /// The newest values, which the optimizer writes; not in any graph.
  tensor_list values_;
  std::int32_t updates_ = 0;  // in this step
  std::map<std::int32_t, std::shared_ptr<version>>
    versions_;          // may be asked for
  bool keeps_ = false;  // further forwards will ask
};

}  // namespace troupe
