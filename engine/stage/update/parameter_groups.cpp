#include "troupe/engine/stage/update/parameter_groups.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/events/globs.hpp"
#include "troupe/engine/events/subscription.hpp"

namespace troupe {

namespace {

void require_number(const parameter_group& group, const char* setting,
                    double value) {
  if (!std::isfinite(value) || value < 0)
    fail(error_code::invalid_argument,
         "the {} of parameters '{}' is {}; use a finite number, 0 or more",
         setting, printable(group.names), value);
}

constexpr std::string_view rate_prefix = "lr*", decay_prefix = "weight-decay=";

/// Returns false for a setting that does not exist.
bool read_setting(std::string_view part, parameter_group& group) {
  if (part == "frozen")
    return group.frozen = true;
  const bool is_rate = part.starts_with(rate_prefix);
  if (!is_rate && !part.starts_with(decay_prefix))
    return false;
  part.remove_prefix(is_rate ? rate_prefix.size() : decay_prefix.size());
  const auto number = parse_number<double>(part);
  if (number && is_rate)
    group.learning_rate = *number;
  else if (number)
    group.weight_decay = number;
  return number.has_value();
}

std::string advice_for(const std::string& glob,
                       const std::vector<std::string>& names) {
  if (auto similar = did_you_mean(glob, names); !similar.empty())
    return similar;
  constexpr std::size_t most = 5;
  const auto first = names | std::views::take(most);
  return fmt::format("; there are {}{}", fmt::join(first, ", "),
                     names.size() > most ? " and others" : "");
}

}  // namespace

parameter_group parse_parameter_group(const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    fail(error_code::invalid_argument,
         "'{}' is not a parameter group: {}; write globs of names, a colon, "
         "and lr*FACTOR, weight-decay=NUMBER or frozen, such as "
         "tok.*,pos.*:lr*0.5,weight-decay=0",
         printable(text), why);
  };
  const auto colon = text.rfind(':');
  if (colon == std::string::npos)
    refuse("the colon is missing");
  parameter_group group{text.substr(0, colon)};
  const auto settings = globs_of(text.substr(colon + 1));
  for (const auto& part : settings)
    if (!read_setting(part, group))
      refuse(fmt::format("'{}' is not a setting", printable(part)));
  if (group.frozen && settings.size() > 1)
    refuse("frozen parameters have no other settings");
  require_legal({group});
  return group;
}

const parameter_group* group_of(const parameter_groups& groups,
                                const std::string& name) {
  for (const auto& group : groups | std::views::reverse)
    if (matches_glob(group.names, name))
      return &group;
  return nullptr;
}

parameter_groups without_decay(parameter_groups groups,
                               const std::vector<std::string>& names) {
  std::map<double, std::string> by_rate;  // the names, joined
  for (const auto& name : names) {
    const auto* group = group_of(groups, name);
    if (group && (group->frozen || group->weight_decay))
      continue;
    auto& joined = by_rate[group ? group->learning_rate : 1];
    joined += (joined.empty() ? "" : ",") + name;
  }
  for (const auto& [rate, joined] : by_rate)
    groups.push_back({joined, rate, 0.0});
  return groups;
}

void require_legal(const parameter_groups& groups) {
  for (const auto& group : groups) {
    require_globs(group.names);
    require_number(group, "learning rate's factor", group.learning_rate);
    if (group.weight_decay)
      require_number(group, "weight decay", *group.weight_decay);
  }
}

void require_matching(const parameter_groups& groups,
                      const std::vector<std::string>& names) {
  for (const auto& group : groups)
    for (const auto& glob : globs_of(group.names))
      if (std::ranges::none_of(names, [&](const std::string& name) {
            return matches_glob(glob, name);
          }))
        fail(error_code::invalid_argument, "no parameter's name matches '{}'{}",
             printable(glob), advice_for(glob, names));
  const auto is_frozen = [&](const std::string& name) {
    const auto* group = group_of(groups, name);
    return group && group->frozen;
  };
  if (!groups.empty() && std::ranges::all_of(names, is_frozen))
    throw error(error_code::invalid_argument,
                "all parameters are frozen, so nothing would be trained");
}

void freeze(const parameter_list& parameters, const parameter_groups& groups) {
  for (const auto& [name, value] : parameters)
    if (const auto* group = group_of(groups, name); group && group->frozen)
      at::Tensor{value}.requires_grad_(false);
}

parameter_list trainable(const parameter_list& parameters) {
  parameter_list trained;
  for (const auto& each : parameters)
    if (each.second.requires_grad())
      trained.push_back(each);
  return trained;
}

}  // namespace troupe
