#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/stage.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

namespace troupe {

/// The parameters of LibTorch modules, held whole on one device.
class module_parameters : public stage_parameters {
 public:
  /// `parameters`: those that are trained. `tied`: which of them are tied; the
  /// settings of all holders are the same (ties.hpp). `publish`: publishes
  /// parameters and gradients. `device`: of the parameters; null: the CPU. Make
  /// calls within its compute stream. `values`: what the optimizer writes in
  /// place of the parameters.
  module_parameters(const parameter_list& parameters, const numerics& options,
                    std::vector<tied_gradient> tied,
                    std::shared_ptr<rank_device> device,
                    std::function<void()> publish,
                    const std::optional<parameter_list>& values = {});

  void begin_step(const step_settings& settings) override;
  const tensor_list& parameters() const override { return parameters_; }
  tensor_list take_gradients() override;
  void put_gradients(tensor_list gradients) override;
  collective_work begin_tied_sum() override;
  std::vector<double> norm_powers() override;
  void show() override { publish_(); }
  void update(double factor) override;
  optimizer_state state() const override { return optimizer_.state(); }
  void load_state(const optimizer_state& state) override {
    optimizer_.load(state);
  }
  void read_parameters() override { optimizer_.read_parameters(); }
  void keep_gradients() override;
  void drop_kept() override;

 protected:
  void run_optimizer() { optimizer_.step(learning_rate_); }

 private:
  tensor_list parameters_;
  tensor_list counted_;  // in norms
  std::vector<tied_gradient> tied_;
  optimizer optimizer_;
  std::shared_ptr<rank_device> device_;
  std::function<void()> publish_;
  troupe::norm_type norm_type_;
  double learning_rate_ = 0;
  /// The gradients that each launch of a recorded step writes.
  tensor_list kept_;
};

}  // namespace troupe
