#include "troupe/engine/stage/update/optimizer.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/stage/update/gradient_lists.hpp"
#include "troupe/engine/stage/update/optimizer_rule.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"

namespace troupe {

namespace {

/// The options of parameters that Muon does not update.
adamw adamw_beside(const muon& options) {
  return {.learning_rate = options.learning_rate,
          .beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay};
}

/// The options of the formula that updates this parameter.
optimizer_options options_for(const optimizer_options& all,
                              const parameter_group* settings,
                              const std::string& name,
                              const at::Tensor& parameter) {
  auto own = all;
  const auto* matrices = std::get_if<muon>(&all);
  if (matrices
      && (parameter.dim() != 2 || matches_glob(matrices->except, name)))
    own = adamw_beside(*matrices);
  if (settings && settings->weight_decay)
    std::visit([&](auto& kind) { kind.weight_decay = *settings->weight_decay; },
               own);
  return own;
}

[[noreturn]] void refuse_state(const std::string& parameter,
                               const std::string& why) {
  fail(error_code::invalid_checkpoint, "the optimizer's state of '{}' {}",
       printable(parameter), why);
}

/// Optimizers walk gradients and parameters alike, whatever their strides.
at::Tensor laid_out_as(const at::Tensor& parameter, at::Tensor gradient) {
  if ((gradient.is_contiguous() && parameter.is_contiguous())
      || gradient.strides() == parameter.strides())
    return gradient;
  return at::empty_like(parameter, gradient.options()).copy_(gradient);
}

}  // namespace

/// Muon's work is that of the matrix products of one Newton-Schulz step.
double work_of_whole(const optimizer_options& options, const std::string& name,
                     const at::Tensor& parameter) {
  const auto own = options_for(options, nullptr, name, parameter);
  const auto elements = static_cast<double>(parameter.numel());
  if (std::holds_alternative<adafactor>(own))
    return std::max(elements, 1.0);
  if (!std::holds_alternative<muon>(own))
    return 0;
  const auto [less, more] =
    std::minmax({static_cast<double>(parameter.size(0)),
                 static_cast<double>(parameter.size(1))});
  return std::max(less * less * (2 * more + less), 1.0);
}

optimizer::optimizer(const optimizer_options& options,
                     parameter_list parameters, const parameter_groups& groups,
                     std::shared_ptr<rank_device> offload_from)
  : offload_from_(std::move(offload_from)) {
  require_legal(options);
  require_legal(groups);
  // Parameters with the same settings and kind of options are in one group.
  std::map<std::pair<const parameter_group*, std::size_t>, std::size_t>
    group_numbers;
  std::set<std::string> names;
  for (auto& [name, parameter] : parameters) {
    if (!names.insert(name).second)
      fail(error_code::invalid_argument, "two parameters are named '{}'",
           printable(name));
    if (!parameter.is_floating_point())
      fail(error_code::invalid_argument,
           "the parameter '{}' is {}; optimizers update real floating-point "
           "numbers: freeze it, or hold its real and imaginary parts",
           printable(name), describe(parameter));
    const auto* settings = group_of(groups, name);
    const auto own = options_for(options, settings, name, parameter);
    const auto [number, is_new] =
      group_numbers.emplace(std::pair(settings, own.index()), groups_.size());
    if (is_new)
      groups_.push_back({own, settings ? settings->learning_rate : 1, {}});
    groups_[number->second].members.push_back(members_.size());
    members_.push_back({std::move(name), std::move(parameter), number->second});
  }
}

void optimizer::step(double learning_rate) {
  const at::NoGradGuard no_grad;
  for (const auto& each : groups_) {
    update(each, false, learning_rate * each.learning_rate);
    update(each, true, learning_rate * each.learning_rate);
  }
}

bool optimizer::needs_master(const member& of) const {
  return offload_from_ || at::isReducedFloatingType(of.parameter.scalar_type());
}

at::Tensor optimizer::fresh_master(const member& of) const {
  const auto value = read_on_host(of.parameter.detach(), offload_from_.get());
  return value.to(widened(value.scalar_type()));
}

parameter_list optimizer::fresh_state(const member& of,
                                      const at::Tensor& master) const {
  auto state = std::visit(
    [&](const auto& kind) {
      return troupe::fresh_state(kind,
                                 master.defined() ? master : of.parameter);
    },
    groups_[of.group].options);
  if (at::isReducedFloatingType(of.parameter.scalar_type()))
    state.emplace_back(master_state_name, master);
  return state;
}

/// The gradients in the memory and dtype in which their parameters are updated.
tensor_list optimizer::gradients_of(const std::vector<member*>& members) const {
  tensor_list gradients;
  event_handle last;
  for (const auto* each : members) {
    gradients.push_back(laid_out_as(each->parameter, each->parameter.grad()));
    if (!offload_from_)
      continue;
    auto copy = to_host(gradients.back(), offload_from_->compute());
    gradients.back() = std::move(copy.tensor);
    last = std::move(copy.ready);
  }
  if (last)
    last->wait();
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i]->master.defined())
      gradients[i] = gradients[i].to(members[i]->master.scalar_type());
  return gradients;
}

/// Updates the parameters whose first gradient this is, or all others.
void optimizer::update(const group& alike, bool first, double learning_rate) {
  std::vector<member*> updated;
  for (const auto index : alike.members)
    if (auto& each = members_[index];
        each.parameter.grad().defined() && each.state.empty() == first)
      updated.push_back(&each);
  if (updated.empty())
    return;
  update_lists lists;
  lists.first = first;
  for (auto* each : updated) {
    if (needs_master(*each) && !each->master.defined())
      each->master = fresh_master(*each);
    if (first)
      each->state = fresh_state(*each, each->master);
    lists.parameters.push_back(each->master.defined() ? each->master
                                                      : each->parameter);
    lists.state.push_back(values_of(each->state));
  }
  lists.gradients = gradients_of(updated);
  std::visit(
    [&](const auto& kind) { troupe::update(kind, lists, learning_rate); },
    alike.options);
  for (auto* each : updated)
    if (offload_from_)
      copy_to_device(each->master.to(each->parameter.scalar_type()),
                     each->parameter, offload_from_->compute());
    else if (each->master.defined())
      each->parameter.copy_(each->master);
}

void optimizer::read_parameters() {
  const at::NoGradGuard no_grad;
  for (auto& each : members_)
    if (each.master.defined())
      each.master.copy_(fresh_master(each));
}

optimizer_state optimizer::initial_state() const {
  const at::NoGradGuard no_grad;
  optimizer_state all;
  for (const auto& each : members_)
    all.push_back(
      {each.name, fresh_state(each, needs_master(each) ? fresh_master(each)
                                                       : at::Tensor{})});
  return all;
}

optimizer_state optimizer::state() const {
  optimizer_state state;
  for (const auto& each : members_)
    state.push_back({each.name, each.state});
  return state;
}

void optimizer::load(const optimizer_state& state) {
  const at::NoGradGuard no_grad;
  std::map<std::string, const parameter_list*> by_name;
  for (const auto& each : state)
    if (!by_name.emplace(each.parameter, &each.tensors).second)
      refuse_state(each.parameter, "is there twice");
  std::vector<parameter_list> states;
  for (const auto& each : members_) {
    const auto entry = by_name.find(each.name);
    if (entry == by_name.end())
      refuse_state(each.name, "is missing");
    states.push_back(state_from(*entry->second, each));
    by_name.erase(entry);
  }
  if (!by_name.empty())
    refuse_state(by_name.begin()->first,
                 "is present, but the model has no such parameter");
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto& each = members_[i];
    each.state = std::move(states[i]);
    const bool has_master =
      !each.state.empty() && each.state.back().first == master_state_name;
    each.master = has_master ? each.state.back().second : at::Tensor{};
  }
}

/// A copy of the tensors in the rule's order.
parameter_list optimizer::state_from(const parameter_list& tensors,
                                     const member& of) const {
  if (tensors.empty())
    return {};
  constexpr auto name_of = &parameter_list::value_type::first;
  const auto master = needs_master(of) ? fresh_master(of) : at::Tensor{};
  auto state = fresh_state(of, master);
  for (const auto& [name, value] : tensors)
    if (name != master_state_name
        && std::ranges::count(state, name, name_of) == 0)
      refuse_state(of.name,
                   fmt::format("has a tensor '{}', which the optimizer does "
                               "not keep",
                               printable(name)));
  for (auto& [name, own] : state) {
    const auto count = std::ranges::count(tensors, name, name_of);
    if (count == 0 && name == master_state_name)
      continue;
    if (count != 1)
      refuse_state(of.name, fmt::format("has the tensor '{}' {}", name,
                                        count == 0 ? "missing" : "twice"));
    const auto& value = std::ranges::find(tensors, name, name_of)->second;
    if (!value.defined() || value.sizes() != own.sizes()
        || value.scalar_type() != own.scalar_type())
      refuse_state(of.name, fmt::format("has '{}' as {}, but needs {}", name,
                                        describe(value), describe(own)));
    own.copy_(value);
  }
  return state;
}

}  // namespace troupe
