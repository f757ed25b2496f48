#include "troupe/cli/model_flags.hpp"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"

namespace troupe::cli {

namespace {

bool has_option(const model_entry& entry, const std::string& name) {
  return std::ranges::find(entry.options, name, &model_option::name)
         != entry.options.end();
}

/// The heading of an option's flag, such as "Model: gpt, u_net".
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
  std::visit(
    [&]<class Value>(Value& chosen) {
      const auto flag = "--" + option.name;
      if constexpr (std::is_same_v<Value, bool>)
        app.add_flag(flag, chosen, option.help)->group(group_of(option.name));
      else
        add_value(
          app, flag, chosen, option.help,
          in_range(std::get<Value>(option.least), std::get<Value>(option.most)))
          ->group(group_of(option.name));
    },
    value);
}

/// Why a name denotes no model; empty for a folder if folders are allowed.
std::string why_no_model(const std::string& name,
                         const std::vector<std::string>& names, bool folders) {
  model_flags chosen;
  chosen.name = name;
  std::error_code trouble;
  if (folders && std::filesystem::is_regular_file(name, trouble))
    return fmt::format("{} is a file; give the folder with the config.json",
                       printable(name));
  if (folders && chosen.is_folder())
    return {};
  const auto similar = did_you_mean(name, names);
  return fmt::format(
    "there is no model{} called {}{}{}",
    folders ? ", and no folder with a config.json," : "", printable(name),
    similar.empty() ? fmt::format("; the models are {}", fmt::join(names, ", "))
                    : similar,
    folders ? "" : "; a model folder is a --checkpoint itself");
}

}  // namespace

void add_model_flags(CLI::App& app, model_flags& flags, bool folders) {
  std::vector<std::string> names;
  std::string help = folders
                       ? "the model:\n"
                       : "the model of a --checkpoint that does not name it:\n";
  for (const auto& entry : registered_models()) {
    names.push_back(entry.name);
    help += fmt::format("  {:14} {}\n", entry.name, entry.summary);
  }
  app.option_defaults()->group(model_group);
  if (folders)
    help +=
      "or a folder of Hugging Face's transformers: config.json and weights";
  add_value(app, folders ? "--model NAME|DIR" : "--model NAME", flags.name,
            help)
    ->check([names, folders](const std::string& name) {
      return std::ranges::count(names, name) > 0
               ? std::string{}
               : why_no_model(name, names, folders);
    });
  for (const auto& entry : registered_models())
    for (const auto& option : entry.options)
      if (flags.values.emplace(option.name, option.usual).second
          && (folders || !option.of_training))
        add_flag(app, option, flags.values[option.name]);
}

bool model_flags::is_folder() const {
  return name.find('/') != name.npos
         || (std::ranges::count(registered_models(), name, &model_entry::name)
               == 0
             && is_model_folder(name));
}

folder_use model_flags::use() const {
  return from_scratch ? folder_use::from_scratch : folder_use::with_weights;
}

std::vector<std::string> flags_of_other_models(const model_flags& flags) {
  std::vector<std::string> names;
  const auto* chosen = flags.is_folder() ? nullptr : &find_model(flags.name);
  for (const auto& [name, value] : flags.values)
    if (!chosen || !has_option(*chosen, name))
      names.push_back(name);
  return names;
}

built_model build_model(const model_flags& flags,
                        const text_batch_options& data, at::ScalarType dtype) {
  if (flags.is_folder()) {
    auto choices = flags.choices;
    choices.lora.seed = data.seed;
    choices.length = data.length;
    const model_folder folder(flags.name, flags.use());
    auto built = folder.build(dtype, data.seed, choices);
    folder.require_each_module(choices.lora);
    return built;
  }
  const auto* flag = flags.from_scratch                 ? "from-scratch"
                     : flags.choices.lora.rank > 0      ? "lora-rank"
                     : flags.choices.documents          ? "document-end"
                     : flags.choices.loss_positions > 0 ? "loss-positions"
                                                        : nullptr;
  if (flag)
    fail(error_code::invalid_argument,
         "--{} is for a --model that is a folder of Hugging Face's "
         "transformers, and {} is not",
         flag, flags.name);
  return find_model(flags.name).build(flags.values, data);
}

}  // namespace troupe::cli
