// The effects of a model on other flags of `troupe train`.
#include <CLI/CLI.hpp>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/model/stored_model.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe::cli {

namespace {

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
  const auto vocabulary = folder.vocabulary();
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
  warn_of_positions(folder, data.length);
}

}  // namespace

void fit_model_and_data(const CLI::App& command, train_options& options) {
  options.model.choices.documents = options.data.document_end >= 0;
  options.model.choices.router_loss = true;
  if (options.model.is_folder())
    fit_folder(command, options);
}

}  // namespace troupe::cli
