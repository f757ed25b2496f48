#include "troupe/engine/stage/parameters/module_parameters.hpp"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

struct module_parameters::version final : stage_state {
  tensor_list values;
};

namespace {

/// Other handles of the parameters with version counters of their own: what the
/// optimizer writes in place has not changed for the graphs.
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
    norm_type_(options.gradient_norm),
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
  norm_parameters_ = norm_parameters_of(parameters, tied);
  tied_ = std::move(tied);
  keeps_versions_ = keeps_versions;
  make_optimizer(keeps_versions ? aliases_of(parameters) : parameters, options);
}

void module_parameters::make_optimizer(parameter_list values,
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
    if (!recorded_gradients_.empty())
      put_gradients(recorded_gradients_, {});
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
    const auto is_present = read_presence(present, device_.get());
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
  return gradient_powers(values_of(norm_parameters_), norm_type_,
                         device_.get());
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

/// The modules' parameters are loaded before, into the version that was set
/// last: if a step was given up, that need not be the newest.
void module_parameters::load_state(const optimizer_state& state) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; keeps_versions_ && i < values_.size(); ++i)
    values_[i].set_data(parameters_[i]);
  optimizer_->load(state);
}

/// Copies the values, so that the next update leaves older versions unchanged.
void module_parameters::move_to_new_memory() {
  auto gradients = take_gradients();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    values_[i].set_data(values_[i].clone());
    values_[i].mutable_grad() = std::move(gradients[i]);
  }
}

/// Adds a version of the newest values, which shares their memory.
void module_parameters::add_version() {
  if (!will_read_)
    return;
  auto newest = std::make_shared<version>();
  for (const auto& value : values_)
    newest->values.push_back(value.detach());
  versions_.emplace(updates_, std::move(newest));
}

std::shared_ptr<stage_state> module_parameters::read_version(
  std::int32_t updates, bool last) {
  const auto entry = versions_.find(updates);
  if (entry == versions_.end())
    fail(error_code::internal,
         "version {} of the parameters is not kept; {} updates have run",
         updates, updates_);
  auto result = entry->second;
  versions_.erase(versions_.begin(), entry);
  if (last) {
    will_read_ = false;
    versions_.clear();
  }
  set(result->values);
  return result;
}

void module_parameters::read_again(const std::shared_ptr<stage_state>& state) {
  const auto* earlier = dynamic_cast<const version*>(state.get());
  if (earlier == nullptr)
    fail(error_code::internal,
         "a backward lacks its version of the parameters");
  set(earlier->values);
}

void module_parameters::set(const tensor_list& values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < values.size(); ++i)
    parameters_[i].set_data(values[i]);
}

void module_parameters::keep_gradients() {
  recorded_gradients_.clear();
  for (const auto& parameter : parameters_)
    recorded_gradients_.push_back(parameter.grad());
}

void module_parameters::drop_kept() {
  recorded_gradients_.clear();
  take_gradients();
}

}  // namespace troupe
