#include "troupe/engine/stage/ties.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/globs.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

namespace {

const at::Tensor* find(const parameter_list& parameters,
                       const std::string& name) {
  const auto found =
    std::ranges::find(parameters, name, &parameter_list::value_type::first);
  return found == parameters.end() ? nullptr : &found->second;
}

std::string close_to(const std::string& name,
                     const std::vector<std::string>& names) {
  const auto closest = closest_names(name, names);
  return closest.empty()
           ? std::string{}
           : fmt::format("; close to it: {}", fmt::join(closest, ", "));
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

/// An owner, which may be on the meta device, and which layer has it.
struct found_owner {
  std::int32_t layer = 0;
  at::Tensor value;
};

/// `own`: of the layer that is tied to it.
found_owner find_owner(const model& layers, std::size_t index,
                       const parameter_list& own, const tied_parameter& tie) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i <= index; ++i) {
    const auto parameters =
      i == index ? own
                 : parameters_of(layers[i].name, *make_layer_shapes(layers, i));
    if (const auto* value = find(parameters, tie.owner))
      return {static_cast<std::int32_t>(i), *value};
    add_names(parameters, names);
  }
  refuse(label_of(layers, index), tie,
         fmt::format("neither it nor an earlier layer has a parameter '{}'{}",
                     printable(tie.owner), close_to(tie.owner, names)));
}

const at::Tensor& find_own(const model& layers, std::size_t index,
                           const parameter_list& own,
                           const tied_parameter& tie) {
  if (const auto* value = find(own, tie.name))
    return *value;
  std::vector<std::string> names;
  add_names(own, names);
  refuse(label_of(layers, index), tie,
         fmt::format("it has no parameter '{}'{}", printable(tie.name),
                     close_to(tie.name, names)));
}

void require_alike(const std::string& label, const tied_parameter& tie,
                   const at::Tensor& own, const at::Tensor& owner) {
  if (own.sizes() != owner.sizes() || own.scalar_type() != owner.scalar_type())
    refuse(label, tie,
           fmt::format("the first is {}, the second {}; tied parameters need "
                       "one shape and dtype",
                       describe(own), describe(owner)));
  if (own.requires_grad() != owner.requires_grad())
    refuse(label, tie,
           "one of them is frozen by its layer, and the other is trained");
}

/// A tie that was found good: its owner, and the tensor that is tied.
struct checked_tie {
  found_owner owner;
  at::Tensor own;
};

checked_tie check(const model& layers, std::size_t index,
                  const parameter_list& own, const tied_parameter& tie) {
  const auto label = label_of(layers, index);
  if (tie.name == tie.owner)
    refuse(label, tie, "that is the same parameter");
  checked_tie made{{}, find_own(layers, index, own, tie)};
  made.owner = find_owner(layers, index, own, tie);
  require_alike(label, tie, made.own, made.owner.value);
  return made;
}

/// The owner with its values. `index`, `own`: of the parameter tied to it.
at::Tensor values_of(const model& layers, std::size_t index,
                     const found_owner& owner, const at::Tensor& own,
                     const tied_parameter& tie) {
  if (!owner.value.is_meta())
    return owner.value;
  const auto place = static_cast<std::size_t>(owner.layer);
  const auto made =
    parameters_of(layers[place].name, *make_layer(layers, place));
  const auto* value = find(made, tie.owner);
  if (!value)
    refuse(label_of(layers, index), tie,
           "the owner's layer has the second by `make_on_meta`, and not by "
           "`make`");
  require_alike(label_of(layers, index), tie, own, *value);
  return *value;
}

}  // namespace

parameter_ties ties_of(const model& layers) {
  parameter_ties all;
  alias_names owners;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].ties.empty())
      continue;
    const auto own =
      parameters_of(layers[i].name, *make_layer_shapes(layers, i));
    for (const auto& tie : layers[i].ties) {
      const auto made = check(layers, i, own, tie);
      if (const auto known = owners.find(tie.name); known != owners.end())
        refuse(label_of(layers, i), tie,
               fmt::format("it is tied already, to '{}'; tie it once",
                           printable(known->second)));
      if (const auto known = owners.find(tie.owner); known != owners.end())
        refuse(label_of(layers, i), tie,
               fmt::format("the second is tied to '{}'; tie both to that one",
                           printable(known->second)));
      owners.emplace(tie.name, tie.owner);
      auto place = std::ranges::find(
        all, tie.owner, [](const parameter_tie& each) { return each.owner(); });
      if (place == all.end())
        place =
          all.insert(all.end(), parameter_tie{{{tie.owner, made.owner.layer}},
                                              made.own.requires_grad()});
      place->holders.push_back({tie.name, static_cast<std::int32_t>(i)});
    }
  }
  for (const auto& each : all)
    if (const auto known = owners.find(each.owner()); known != owners.end())
      fail(error_code::invalid_argument,
           "'{}' is tied to '{}', which is tied to '{}'; tie both to that one",
           printable(each.holders[1].name), printable(each.owner()),
           printable(known->second));
  return all;
}

void take_tied_values(const model& layers, std::size_t index,
                      const stage_module& made) {
  if (layers[index].ties.empty())
    return;
  const at::NoGradGuard no_grad;
  const auto own = parameters_of(layers[index].name, made);
  for (const auto& tie : layers[index].ties) {
    const auto checked = check(layers, index, own, tie);
    checked.own.detach().copy_(
      values_of(layers, index, checked.owner, checked.own, tie));
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
      if (const auto found = aliases.find(glob); found != aliases.end())
        fail(error_code::invalid_argument,
             "'{}' is tied to '{}', and has its settings; assign them to that "
             "name",
             printable(found->first), printable(found->second));
}

}  // namespace

numerics with_settings_of_owners(numerics options, const parameter_ties& ties) {
  const auto aliases = aliases_of(ties);
  require_no_alias(options.parameters, aliases);
  const auto given = options.parameters;
  auto* matrices = std::get_if<muon>(&options.optimizer);
  const auto except = matrices ? matrices->except : std::string{};
  for (const auto& [alias, owner] : aliases) {
    const auto* of_owner = group_of(given, owner);
    if (of_owner || group_of(given, alias)) {
      auto own = of_owner ? *of_owner : parameter_group{};
      own.names = alias;
      options.parameters.push_back(std::move(own));
    }
    if (matrices && matches_glob(except, owner) != matches_glob(except, alias))
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
    const auto* value = find(values, owner);
    const auto* there = find(values, alias);
    if (value == nullptr)
      continue;
    if (there == nullptr)
      values.emplace_back(alias, at::Tensor(*value));
    else if (there->sizes() != value->sizes()
             || there->scalar_type() != value->scalar_type()
             || !at::equal(*there, *value))
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
    const auto found =
      std::ranges::find(state, owner, &parameter_state::parameter);
    if (found != state.end())
      state.push_back({alias, parameter_list(found->tensors)});
  }
  return state;
}

std::vector<std::vector<std::int32_t>> holding_stages(
  const parameter_ties& ties, const stage_split& split) {
  std::vector<std::vector<std::int32_t>> all;
  for (const auto& tie : ties) {
    auto& stages = all.emplace_back();
    for (const auto& holder : tie.holders)
      stages.push_back(static_cast<std::int32_t>(
        std::ranges::upper_bound(split, holder.layer, {}, &layer_range::last)
        - split.begin()));
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
  std::vector<tied_gradient> found;
  for (std::size_t t = 0; t < ties.size(); ++t)
    for (std::size_t h = 0; h < ties[t].holders.size(); ++h) {
      const auto place = std::ranges::find(trained, ties[t].holders[h].name,
                                           &parameter_list::value_type::first);
      if (place != trained.end())
        found.push_back({static_cast<std::size_t>(place - trained.begin()),
                         static_cast<std::int32_t>(t), h == 0});
    }
  return found;
}

std::map<std::int32_t, tied_holders> holders_of(tied_sum& work) {
  std::map<std::int32_t, tied_holders> held;
  for (const auto& each : work.tied) {
    auto& holders = held[each.tie];
    holders.gradients.push_back(&work.gradients.at(each.position));
    holders.like.push_back(work.parameters.at(each.position));
  }
  return held;
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
    auto& own = *holders.gradients[i];
    if (own.is_same(sum))
      continue;
    if (!own.defined() || own.scalar_type() != sum.scalar_type())
      own = at::empty_like(holders.like[i],
                           holders.like[i].options().dtype(sum.dtype()));
    own.copy_(sum);
  }
}

}  // namespace troupe
