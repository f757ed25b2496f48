#include "troupe/engine/stage/ties.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/globs.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

namespace {

const at::Tensor* find(const parameter_list& parameters,
                       const std::string& name) {
  const auto entry =
    std::ranges::find(parameters, name, &parameter_list::value_type::first);
  return entry == parameters.end() ? nullptr : &entry->second;
}

void add_names(const parameter_list& parameters,
               std::vector<std::string>& names) {
  for (const auto& [name, value] : parameters)
    names.push_back(name);
}

[[noreturn]] void refuse(const std::string& label, const tied_parameter& tie,
                         const std::string& why) {
  fail(error_code::invalid_argument, "{} ties '{}' to '{}': {}", label,
       printable(tie.name), printable(tie.owner), why);
}

void require_alike(const std::string& label, const tied_parameter& tie,
                   const at::Tensor& alias, const at::Tensor& owner) {
  if (alias.sizes() != owner.sizes()
      || alias.scalar_type() != owner.scalar_type())
    refuse(label, tie,
           fmt::format("the first is {}, the second {}; tied parameters need "
                       "one shape and dtype",
                       describe(alias), describe(owner)));
  if (alias.requires_grad() != owner.requires_grad())
    refuse(label, tie,
           "one of them is frozen by its layer, and the other is trained");
}

/// The tensors of a tie.
struct tie_tensors {
  std::int32_t owner_layer = 0;
  at::Tensor owner;  // may be on the meta device
  at::Tensor alias;
};

/// Finds them; `parameters`: those of the alias's layer, which has this index.
tie_tensors find_tensors(const model& layers, std::size_t index,
                         const parameter_list& parameters,
                         const tied_parameter& tie) {
  const auto label = label_of(layers, index);
  if (tie.name == tie.owner)
    refuse(label, tie, "that is the same parameter");
  std::vector<std::string> names;
  const auto* alias = find(parameters, tie.name);
  if (!alias) {
    add_names(parameters, names);
    refuse(label, tie,
           fmt::format("it has no parameter '{}'{}", printable(tie.name),
                       did_you_mean(tie.name, names)));
  }
  for (std::size_t i = 0; i <= index; ++i) {
    const auto candidates =
      i == index ? parameters
                 : parameters_of(layers[i].name, *make_layer_shapes(layers, i));
    if (const auto* owner = find(candidates, tie.owner)) {
      require_alike(label, tie, *alias, *owner);
      return {static_cast<std::int32_t>(i), *owner, *alias};
    }
    add_names(candidates, names);
  }
  refuse(label, tie,
         fmt::format("neither it nor an earlier layer has a parameter '{}'{}",
                     printable(tie.owner), did_you_mean(tie.owner, names)));
}

/// The owner with its values, for which its layer is made.
at::Tensor owner_with_values(const model& layers, const std::string& label,
                             const tied_parameter& tie,
                             const tie_tensors& tensors) {
  if (!tensors.owner.is_meta())
    return tensors.owner;
  const auto layer = slot(tensors.owner_layer);
  const auto parameters =
    parameters_of(layers[layer].name, *make_layer(layers, layer));
  const auto* owner = find(parameters, tie.owner);
  if (!owner)
    refuse(label, tie,
           "the owner's layer has the second by `make_on_meta`, and not by "
           "`make`");
  require_alike(label, tie, tensors.alias, *owner);
  return *owner;
}

}  // namespace

parameter_ties ties_of(const model& layers) {
  parameter_ties all;
  alias_names owners;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].ties.empty())
      continue;
    const auto parameters =
      parameters_of(layers[i].name, *make_layer_shapes(layers, i));
    for (const auto& tie : layers[i].ties) {
      const auto tensors = find_tensors(layers, i, parameters, tie);
      if (const auto entry = owners.find(tie.name); entry != owners.end())
        refuse(label_of(layers, i), tie,
               fmt::format("it is tied already, to '{}'; tie it once",
                           printable(entry->second)));
      if (const auto entry = owners.find(tie.owner); entry != owners.end())
        refuse(label_of(layers, i), tie,
               fmt::format("the second is tied to '{}'; tie both to that one",
                           printable(entry->second)));
      owners.emplace(tie.name, tie.owner);
      auto place = std::ranges::find(all, tie.owner, &parameter_tie::owner);
      if (place == all.end())
        place = all.insert(all.end(),
                           parameter_tie{{{tie.owner, tensors.owner_layer}},
                                         tensors.alias.requires_grad()});
      place->holders.push_back({tie.name, static_cast<std::int32_t>(i)});
    }
  }
  for (const auto& each : all)
    if (const auto entry = owners.find(each.owner()); entry != owners.end())
      fail(error_code::invalid_argument,
           "'{}' is tied to '{}', which is tied to '{}'; tie both to that one",
           printable(each.holders[1].name), printable(each.owner()),
           printable(entry->second));
  return all;
}

void take_tied_values(const model& layers, std::size_t index,
                      const stage_module& module) {
  if (layers[index].ties.empty())
    return;
  const at::NoGradGuard no_grad;
  const auto parameters = parameters_of(layers[index].name, module);
  for (const auto& tie : layers[index].ties) {
    const auto tensors = find_tensors(layers, index, parameters, tie);
    tensors.alias.detach().copy_(
      owner_with_values(layers, label_of(layers, index), tie, tensors));
  }
}

parameter_ties trained_ties(parameter_ties ties,
                            const parameter_groups& settings) {
  std::erase_if(ties, [&](const parameter_tie& each) {
    const auto* group = group_of(settings, each.owner());
    return !each.trained || (group != nullptr && group->frozen);
  });
  return ties;
}

namespace {

void require_no_alias(const parameter_groups& groups,
                      const alias_names& aliases) {
  for (const auto& group : groups)
    for (const auto& glob : globs_of(group.names))
      if (const auto entry = aliases.find(glob); entry != aliases.end())
        fail(error_code::invalid_argument,
             "'{}' is tied to '{}', and has its settings; assign them to that "
             "name",
             printable(entry->first), printable(entry->second));
}

}  // namespace

numerics with_settings_of_owners(numerics options, const parameter_ties& ties) {
  const auto aliases = aliases_of(ties);
  const auto groups = options.parameters;
  require_no_alias(groups, aliases);
  const auto* matrices = std::get_if<muon>(&options.optimizer);
  for (const auto& [alias, owner] : aliases) {
    const auto* owner_group = group_of(groups, owner);
    if (owner_group || group_of(groups, alias)) {
      auto alias_group = owner_group ? *owner_group : parameter_group{};
      alias_group.names = alias;
      options.parameters.push_back(std::move(alias_group));
    }
    if (matrices
        && matches_glob(matrices->except, owner)
             != matches_glob(matrices->except, alias))
      fail(error_code::invalid_argument,
           "muon updates one of '{}' and '{}', which are tied, and not the "
           "other; let --muon-except name both, or none",
           printable(owner), printable(alias));
  }
  return options;
}

alias_names aliases_of(const parameter_ties& ties) {
  alias_names aliases;
  for (const auto& tie : ties)
    for (std::size_t i = 1; i < tie.holders.size(); ++i)
      aliases.emplace(tie.holders[i].name, tie.owner());
  return aliases;
}

parameter_list without_aliases(parameter_list parameters,
                               const alias_names& aliases) {
  std::erase_if(parameters,
                [&](const auto& each) { return aliases.contains(each.first); });
  return parameters;
}

parameter_list with_aliases(parameter_list values, const alias_names& aliases,
                            const std::string& origin) {
  for (const auto& [alias, owner] : aliases) {
    const auto* owner_value = find(values, owner);
    const auto* alias_value = find(values, alias);
    if (owner_value == nullptr)
      continue;
    if (alias_value == nullptr)
      values.emplace_back(alias, at::Tensor(*owner_value));
    else if (alias_value->sizes() != owner_value->sizes()
             || alias_value->scalar_type() != owner_value->scalar_type()
             || !at::equal(*alias_value, *owner_value))
      fail(error_code::invalid_checkpoint,
           "{}: holds different values of '{}' and '{}', which this model ties",
           origin, printable(owner), printable(alias));
  }
  return values;
}

optimizer_state without_aliases(optimizer_state state,
                                const alias_names& aliases) {
  std::erase_if(
    state, [&](const auto& each) { return aliases.contains(each.parameter); });
  return state;
}

optimizer_state with_aliases(optimizer_state state,
                             const alias_names& aliases) {
  for (const auto& [alias, owner] : aliases) {
    const auto owner_state =
      std::ranges::find(state, owner, &parameter_state::parameter);
    if (owner_state != state.end())
      state.push_back({alias, parameter_list(owner_state->tensors)});
  }
  return state;
}

std::vector<std::vector<std::int32_t>> holding_stages(
  const parameter_ties& ties, const stage_split& split) {
  std::vector<std::vector<std::int32_t>> all;
  for (const auto& tie : ties) {
    auto& stages = all.emplace_back();
    for (const auto& holder : tie.holders)
      stages.push_back(stage_of_layer(split, holder.layer));
  }
  return all;
}

std::vector<std::int32_t> joined(
  const std::vector<std::vector<std::int32_t>>& stages) {
  std::set<std::int32_t> all;
  for (const auto& each : stages)
    all.insert(each.begin(), each.end());
  return {all.begin(), all.end()};
}

std::vector<std::int32_t> tied_stages(const model& layers,
                                      const stage_split& split,
                                      const parameter_groups& settings) {
  return joined(holding_stages(trained_ties(ties_of(layers), settings), split));
}

std::vector<tied_gradient> tied_among(const parameter_ties& ties,
                                      const parameter_list& trained) {
  std::vector<tied_gradient> tied;
  for (std::size_t t = 0; t < ties.size(); ++t)
    for (std::size_t h = 0; h < ties[t].holders.size(); ++h) {
      const auto place = std::ranges::find(trained, ties[t].holders[h].name,
                                           &parameter_list::value_type::first);
      if (place != trained.end())
        tied.push_back({static_cast<std::size_t>(place - trained.begin()),
                        static_cast<std::int32_t>(t), h == 0});
    }
  return tied;
}

std::map<std::int32_t, tied_holders> holders_of(tied_sum& work) {
  std::map<std::int32_t, tied_holders> by_tie;
  for (const auto& each : work.tied) {
    auto& holders = by_tie[each.tie];
    holders.gradients.push_back(&work.gradients.at(each.position));
    holders.parameters.push_back(work.parameters.at(each.position));
  }
  return by_tie;
}

void sum_tied(const tied_holders& holders) {
  const at::NoGradGuard no_grad;
  tensor_list gradients;
  for (const auto* each : holders.gradients)
    gradients.push_back(*each);
  const auto sum = gradient_mean(1).of(gradients);
  if (!sum.defined())
    return;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    auto& gradient = *holders.gradients[i];
    const auto& parameter = holders.parameters[i];
    if (gradient.is_same(sum))
      continue;
    if (!gradient.defined() || gradient.scalar_type() != sum.scalar_type())
      gradient =
        at::empty_like(parameter, parameter.options().dtype(sum.dtype()));
    gradient.copy_(sum);
  }
}

}  // namespace troupe
