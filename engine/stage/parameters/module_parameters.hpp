#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/stage.hpp"
#include "troupe/engine/stage/update/optimizer.hpp"

namespace troupe {

/// The parameters of LibTorch modules, held whole on one device.
///
/// With `keeps_versions` they may be updated several times within a step, while
/// earlier versions are still read (PipeDream's weight stashing,
/// PipeDream-2BW). An update then makes a new version in new memory. The
/// modules read the version that was set last, and a backward has its forward's
/// version set again. A graph of LibTorch refers to a leaf. The leaf's memory
/// is replaced, not written, so that its version counter stays, and a backward
/// reads what the leaf holds then.
class module_parameters : public stage_parameters {
 public:
  /// `parameters`: those that are trained. `tied`: which of them are tied; the
  /// settings of all holders are the same (ties.hpp). `publish`: publishes
  /// parameters and gradients. `device`: that of the parameters; null: the CPU.
  /// All calls are made within its compute stream.
  module_parameters(const parameter_list& parameters, const numerics& options,
                    std::vector<tied_gradient> tied,
                    std::shared_ptr<rank_device> device,
                    std::function<void()> publish, bool keeps_versions = false);

  void begin_step(const step_settings& settings) override;
  const tensor_list& parameters() const override { return parameters_; }
  tensor_list take_gradients() override;
  void put_gradients(tensor_list gradients, at::Tensor present) override;
  collective_work begin_reduction() override;
  tied_sum begin_tied_sum() override;
  std::vector<double> norm_powers() override;
  std::string name_of_power(std::size_t place) const override {
    return norm_parameters_.at(place).first;
  }
  void show() override;
  void update(double factor) override;
  optimizer_state state() const override { return optimizer_->state(); }
  void load_state(const optimizer_state& state) override;
  void read_parameters() override { optimizer_->read_parameters(); }
  std::shared_ptr<stage_state> read_version(std::int32_t updates,
                                            bool last) override;
  void read_again(const std::shared_ptr<stage_state>& state) override;
  void keep_gradients() override;
  void drop_kept() override;

 protected:
  /// A derived class fills the members below itself.
  module_parameters(const numerics& options,
                    std::shared_ptr<rank_device> device,
                    std::function<void()> publish);
  /// Makes the optimizer of these values.
  void make_optimizer(parameter_list values, const numerics& options);

  tensor_list parameters_;
  tensor_list values_;  // which the optimizer updates from their gradients
  std::vector<tied_gradient> tied_;
  std::unique_ptr<optimizer> optimizer_;
  std::shared_ptr<rank_device> device_;
  norm_type norm_type_;
  bool reduces_in_fp32_;

 private:
  struct version;

  void set(const tensor_list& values);
  void add_version();
  void move_to_new_memory();

  std::function<void()> publish_;
  parameter_list norm_parameters_;
  double learning_rate_ = 0;
  /// The gradients that each launch of a recorded step writes.
  tensor_list recorded_gradients_;
  /// Then `values_` are handles of their own, which are in no graph.
  bool keeps_versions_ = false;
  bool will_read_ = false;    // further forwards will ask for a version
  std::int32_t updates_ = 0;  // in this step
  /// The versions that may be asked for, by the number of updates.
  std::map<std::int32_t, std::shared_ptr<version>> versions_;
};

}  // namespace troupe
