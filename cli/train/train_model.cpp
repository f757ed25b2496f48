// What a model decides about other flags of troupe train.
#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe::cli {

namespace {

/// Flags that say how another one does its work.
struct detail_flags {
  bool have_effect;
  const char* of;
  std::vector<std::string> names;
};

std::vector<detail_flags> details(const train_options& o) {
  return {{o.model.choices.lora.rank > 0,
           "--lora-rank",
           {"lora-alpha", "lora-dropout", "lora-modules"}},
          {!o.output.save_model.empty(),
           "--save-model",
           {"save-dtype", "max-shard-size"}}};
}

/// Without the adapters that were meant, all parameters would be trained.
void require_details(const CLI::App& command, const train_options& options) {
  for (const auto& [have_effect, of, names] : details(options))
    for (const auto& name : names)
      if (!have_effect && command.count("--" + name) > 0)
        fail(error_code::invalid_argument,
             "--{} has no effect without {}; give it, or omit the flag", name,
             of);
}

void refuse_sizes(const CLI::App& command, const model_flags& flags) {
  for (const auto& name : flags_of_other_models(flags))
    if (command.count("--" + name) > 0)
      fail(error_code::invalid_argument,
           "--{}: {} describes its model in config.json; omit the flag", name,
           printable(flags.name));
}

void fit_folder(const CLI::App& command, train_options& options) {
  const model_folder folder(options.model.name, folder_use::from_scratch);
  refuse_sizes(command, options.model);
  auto& data = options.data.batches;
  const auto vocabulary = folder.options().vocabulary;
  if (command.count("--vocabulary") > 0 && data.vocabulary != vocabulary)
    fail(error_code::invalid_argument,
         "--vocabulary {}: the model in {} has {}; omit the flag",
         data.vocabulary, printable(folder.path()), vocabulary);
  data.vocabulary = vocabulary;
  if (options.data.document_end >= vocabulary)
    fail(error_code::invalid_argument,
         "--document-end {}: the model in {} has ids up to {}",
         options.data.document_end, printable(folder.path()), vocabulary - 1);
  if (const auto longest = folder.options().length;
      longest > 0 && data.length > longest)
    fail(error_code::invalid_argument,
         "--seq {}: the model in {} has {} positions", data.length,
         printable(folder.path()), longest);
}

}  // namespace

void fit_model_and_data(const CLI::App& command, train_options& options) {
  options.model.choices.documents = options.data.document_end >= 0;
  options.model.choices.router_loss = true;
  require_details(command, options);
  if (options.model.is_folder())
    fit_folder(command, options);
}

void warn_of_other_models(const CLI::App& command, const model_flags& flags) {
  for (const auto& name : flags_of_other_models(flags))
    if (command.count("--" + name) > 0)
      spdlog::warn("--{} has no effect with --model {}", name, flags.name);
}

std::vector<std::string> moot_flags(const train_options& options) {
  auto flags = flags_of_other_models(options.model);
  if (options.model.is_folder())
    flags.emplace_back("vocabulary");
  for (const auto& [have_effect, of, names] : details(options))
    if (!have_effect)
      std::ranges::copy(names, std::back_inserter(flags));
  // Of two flags that exclude each other.
  flags.emplace_back(options.epochs > 0 ? "steps" : "epochs");
  flags.emplace_back(options.optimisation.min_lr.empty() ? "min-lr"
                                                         : "final-lr");
  if (!sizes_file(options.partition).empty())
    std::ranges::copy(sizes_in_file(), std::back_inserter(flags));
  if (!options.partition.plan.empty())
    flags.emplace_back("schedule");
  return flags;
}

}  // namespace troupe::cli
