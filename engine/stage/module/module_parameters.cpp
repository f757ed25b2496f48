#include "troupe/engine/stage/module/module_parameters.hpp"

#include <utility>

#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

module_parameters::module_parameters(
  const parameter_list& parameters, const numerics& options,
  std::vector<tied_gradient> tied, std::shared_ptr<rank_device> device,
  std::function<void()> publish, const std::optional<parameter_list>& values)
  : parameters_(values_of(parameters)),
    counted_(counted_of(parameters_, tied)),
    tied_(std::move(tied)),
    optimizer_(options.optimizer, values.value_or(parameters),
               options.parameters,
               options.offload_optimizer ? device : nullptr),
    device_(std::move(device)),
    publish_(std::move(publish)),
    norm_type_(options.norm_type) {}

void module_parameters::begin_step(const step_settings& settings) {
  learning_rate_ = settings.learning_rate;
  if (settings.part != step_part::update) {
    if (settings.training())
      take_gradients();
  } else if (!kept_.empty()) {
    put_gradients(kept_);
  }
}

tensor_list module_parameters::take_gradients() {
  return troupe::take_gradients(parameters_);
}

void module_parameters::put_gradients(tensor_list gradients) {
  troupe::put_gradients(parameters_, std::move(gradients), device_.get());
}

collective_work module_parameters::begin_tied_sum() {
  if (tied_.empty())
    return stage_parameters::begin_tied_sum();
  return {.kind = collective_kind::tied_sum,
          .tensors = take_gradients(),
          .targets = parameters_,
          .tied = tied_};
}

std::vector<double> module_parameters::norm_powers() {
  return gradient_powers(counted_, norm_type_, device_.get());
}

void module_parameters::update(double factor) {
  scale_gradients(parameters_, factor);
  run_optimizer();
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
