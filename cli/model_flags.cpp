#include "troupe/cli/model_flags.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>

#include "troupe/cli/plan/checks.hpp"

namespace troupe::cli {

namespace {

bool has_option(const model_entry& entry, const std::string& name) {
  return std::ranges::find(entry.options, name, &model_option::name)
         != entry.options.end();
}

/// "Model: gpt, u_net".
std::string group_of(const std::string& option) {
  std::string group;
  for (const auto& entry : registered_models())
    if (has_option(entry, option))
      group += (group.empty() ? "Model: " : ", ") + entry.name;
  return group;
}

CLI::Validator in_range(std::int64_t least, std::int64_t most) {
  return whole_number(least, most);
}
CLI::Validator in_range(double least, double most) {
  return number(least, most);
}

void add_flag(CLI::App& app, const model_option& option, option_value& value) {
  value = option.usual;
  std::visit(
    [&]<class Value>(Value& chosen) {
      const auto flag = "--" + option.name;
      if constexpr (std::is_same_v<Value, bool>)
        app.add_flag(flag, chosen, option.help)->group(group_of(option.name));
      else
        app.add_option(flag, chosen, option.help)
          ->check(in_range(std::get<Value>(option.least),
                           std::get<Value>(option.most)))
          ->group(group_of(option.name));
    },
    value);
}

}  // namespace

void add_model_flags(CLI::App& app, model_flags& flags) {
  std::vector<std::string> names;
  std::string help = "the model:\n";
  for (const auto& entry : registered_models()) {
    names.push_back(entry.name);
    help += fmt::format("  {:14} {}\n", entry.name, entry.summary);
  }
  app.option_defaults()->group("Model");
  app.add_option("--model", flags.name, help)->check(CLI::IsMember(names));
  for (const auto& entry : registered_models())
    for (const auto& option : entry.options)
      if (!flags.values.contains(option.name))
        add_flag(app, option, flags.values[option.name]);
}

std::vector<std::string> flags_of_other_models(const model_flags& flags) {
  std::vector<std::string> names;
  const auto& chosen = find_model(flags.name);
  for (const auto& [name, value] : flags.values)
    if (!has_option(chosen, name))
      names.push_back(name);
  return names;
}

}  // namespace troupe::cli
