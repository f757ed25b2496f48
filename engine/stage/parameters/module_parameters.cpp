#include "troupe/engine/stage/parameters/module_parameters.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

struct module_parameters::version final : stage_state {
  tensor_list values;
};

namespace {

/// The same, with version counters of their own: what the optimizer writes in
/// place has not changed for the graphs.
parameter_list aliases_of(parameter_list parameters) {
  for (auto& [name, value] : parameters)
    value = value.variable_data();
  return parameters;
}

}  // namespace

module_parameters::module_parameters(const numerics& options,
                                     std::shared_ptr<rank_device> device,
                                     std::function<void()> publish)
  : device_(std::move(device)),
    norm_type_(options.norm_type),
    reduces_in_fp32_(options.reduces_in_fp32()),
    publish_(std::move(publish)) {}

module_parameters::module_parameters(const parameter_list& parameters,
                                     const numerics& options,
                                     std::vector<tied_gradient> tied,
                                     std::shared_ptr<rank_device> device,
                                     std::function<void()> publish,
                                     bool keeps_versions)
  : module_parameters(options, std::move(device), std::move(publish)) {
  parameters_ = values_of(parameters);
  counted_ = counted_of(parameters, tied);
  tied_ = std::move(tied);
  keeps_versions_ = keeps_versions;
  optimize(keeps_versions ? aliases_of(parameters) : parameters, options);
}

void module_parameters::optimize(parameter_list values,
                                 const numerics& options) {
  values_ = values_of(values);
  optimizer_ = std::make_unique<optimizer>(
    options.optimizer, std::move(values), options.parameters,
    options.offload_optimizer ? device_ : nullptr);
}

void module_parameters::begin_step(const step_settings& settings) {
  learning_rate_ = settings.learning_rate;
  if (keeps_versions_)
    set(values_);
  if (settings.part == step_part::update) {
    if (!kept_.empty())
      put_gradients(kept_);
  } else if (settings.training()) {
    take_gradients();
    troupe::take_gradients(values_);
  }
  updates_ = 0;
  versions_.clear();
  will_read_ = keeps_versions_ && settings.training();
  add_version();
}

tensor_list module_parameters::take_gradients() {
  return troupe::take_gradients(parameters_);
}

void module_parameters::put_gradients(tensor_list gradients,
                                      at::Tensor present) {
  if (present.defined()) {
    const auto is_present = present_of(present, device_.get());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (!is_present.at(i))
        gradients[i].reset();
  }
  troupe::put_gradients(parameters_, std::move(gradients));
}

collective_work module_parameters::begin_reduction() {
  return all_reduce{{{take_gradients(), parameters_}, reduces_in_fp32_}};
}

tied_sum module_parameters::begin_tied_sum() {
  if (tied_.empty())
    return stage_parameters::begin_tied_sum();
  return {{take_gradients(), parameters_}, tied_};
}

std::vector<double> module_parameters::norm_powers() {
  return gradient_powers(values_of(counted_), norm_type_, device_.get());
}

void module_parameters::show() {
  if (keeps_versions_)
    set(values_);
  publish_();
}

void module_parameters::update(double factor) {
  if (keeps_versions_)
    move_to_new_memory();
  scale_gradients(values_, factor);
  optimizer_->step(learning_rate_);
  if (!keeps_versions_)
    return;
  troupe::take_gradients(values_);
  ++updates_;
  set(values_);
  add_version();
}

/// Leaves the values of older versions as they are.
void module_parameters::move_to_new_memory() {
  auto gradients = take_gradients();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i].set_data(values_[i].clone());
    values_[i].mutable_grad() = std::move(gradients[i]);
  }
}

/// Of the newest values: the same memory, in no graph.
void module_parameters::add_version() {
  if (!will_read_)
    return;
  auto made = std::make_shared<version>();
  for (const auto& value : values_)
    made->values.push_back(value.detach());
  versions_.emplace(updates_, std::move(made));
}

std::shared_ptr<stage_state> module_parameters::read_version(
  std::int32_t version, bool last) {
  if (!keeps_versions_)
    return stage_parameters::read_version(version, last);
  const auto found = versions_.find(version);
  if (found == versions_.end())
    fail(error_code::internal,
         "version {} of the parameters is not kept; {} updates have run",
         version, updates_);
  auto held = found->second;
  versions_.erase(versions_.begin(), found);
  if (last) {
    will_read_ = false;
    versions_.clear();
  }
  set(held->values);
  return held;
}

void module_parameters::read_again(
  const std::shared_ptr<stage_state>& version) {
  const auto* held = dynamic_cast<const struct version*>(version.get());
  if (held == nullptr)
    fail(error_code::internal,
         "a backward lacks its version of the parameters");
  set(held->values);
}

void module_parameters::set(const tensor_list& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters_[i].set_data(values[i]);
}

void module_parameters::keep_gradients() {
  kept_.clear();
  for (const auto& parameter : parameters_)
    kept_.push_back(parameter.grad());
}

void module_parameters::drop_kept() {
  kept_.clear();
  take_gradients();
}

}  // namespace troupe
