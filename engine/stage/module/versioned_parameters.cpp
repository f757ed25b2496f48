#include "troupe/engine/stage/module/versioned_parameters.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

struct versioned_parameters::version final : stage_state {
  explicit version(tensor_list of) : values(std::move(of)) {}
  tensor_list values;
};

namespace {

/// The same memory, in no graph.
tensor_list aliases_of(const tensor_list& tensors) {
  tensor_list all;
  for (const auto& tensor : tensors)
    all.push_back(tensor.detach());
  return all;
}

/// The same, with version counters of their own: what the optimizer writes in
/// place has not changed for the graphs.
parameter_list aliases_of(parameter_list parameters) {
  for (auto& [name, value] : parameters)
    value = value.variable_data();
  return parameters;
}

}  // namespace

versioned_parameters::versioned_parameters(const parameter_list& parameters,
                                           const numerics& options,
                                           std::vector<tied_gradient> tied,
                                           std::shared_ptr<rank_device> device,
                                           std::function<void()> publish)
  : versioned_parameters(parameters, aliases_of(parameters), options,
                         std::move(tied), std::move(device),
                         std::move(publish)) {}

versioned_parameters::versioned_parameters(const parameter_list& parameters,
                                           parameter_list values,
                                           const numerics& options,
                                           std::vector<tied_gradient> tied,
                                           std::shared_ptr<rank_device> device,
                                           std::function<void()> publish)
  : module_parameters(parameters, options, std::move(tied), std::move(device),
                      std::move(publish), values),
    values_(values_of(values)) {}

void versioned_parameters::begin_step(const step_settings& settings) {
  set(values_);
  updates_ = 0;
  versions_.clear();
  module_parameters::begin_step(settings);
  keeps_ = settings.training();
  if (keeps_)
    versions_.emplace(0, newest());
}

void versioned_parameters::show() {
  set(values_);
  module_parameters::show();
}

/// Leaves the values of older versions as they are: the optimizer writes to a
/// copy.
void versioned_parameters::update(double factor) {
  scale_gradients(parameters(), factor);
  auto gradients = take_gradients();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i].set_data(values_[i].clone());
    values_[i].mutable_grad() = std::move(gradients[i]);
  }
  run_optimizer();
  troupe::take_gradients(values_);
  ++updates_;
  set(values_);
  if (keeps_)
    versions_.emplace(updates_, newest());
}

std::shared_ptr<stage_state> versioned_parameters::read_version(
  std::int32_t version, bool last) {
  const auto found = versions_.find(version);
  if (found == versions_.end())
    fail(error_code::internal,
         "version {} of the parameters is not kept; {} updates have run",
         version, updates_);
  auto held = found->second;
  versions_.erase(versions_.begin(), found);
  if (last) {
    keeps_ = false;
    versions_.clear();
  }
  set(held->values);
  return held;
}

void versioned_parameters::read_again(
  const std::shared_ptr<stage_state>& version) {
  const auto* held = dynamic_cast<const struct version*>(version.get());
  if (held == nullptr)
    fail(error_code::internal,
         "a backward lacks its version of the parameters");
  set(held->values);
}

void versioned_parameters::set(const tensor_list& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters()[i].set_data(values[i]);
}

std::shared_ptr<versioned_parameters::version> versioned_parameters::newest()
  const {
  return std::make_shared<version>(aliases_of(values_));
}

}  // namespace troupe
