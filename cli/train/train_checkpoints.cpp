#include "troupe/cli/train/train_checkpoints.hpp"

#include <utility>

#include "troupe/engine/stage/ties.hpp"

namespace troupe::cli {

checkpoint_words words_of(const train_options& options) {
  return {.folder = "--checkpoints",
          .resume = "--resume",
          .prefix = "--",
          .model = "--model " + options.model.name};
}

manifest about_run(const train_options& options, const train_setup& setup) {
  manifest about{.settings = setup.data_settings,
                 .flags = setup.flags,
                 .learning_rate = texts_of(rates_of(setup.trainer.numerics)),
                 .model = setup.model_texts,
                 .aliases = aliases_of(ties_of(setup.model.layers))};
  about.settings[optimizer_setting] = options.optimisation.optimizer.optimizer;
  return about;
}

resume_options resume_options_of(const train_options& options) {
  return {.from = options.checkpoints.resume,
          .folder = options.checkpoints.folder,
          .steps = options.steps,
          .words = words_of(options)};
}

saving_options saving_options_of(const train_options& options,
                                 saver_timeouts timeouts) {
  const auto& o = options.checkpoints;
  return {o.folder, o.every, o.kept, std::move(timeouts)};
}

std::string summary_of(const train_options& options,
                       const checkpoint_saver& saver, std::int64_t step) {
  return options.checkpoints.folder.empty()
           ? "no checkpoint is saved; --checkpoints DIR would save one"
           : saver.summary(step);
}

}  // namespace troupe::cli
