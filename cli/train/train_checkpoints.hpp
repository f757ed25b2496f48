#pragma once

#include "troupe/cli/train/train_options.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/training/trainer_saver.hpp"

namespace troupe::cli {

/// The names of the flags in messages.
checkpoint_words words_of(const train_options& options);
/// The manifest of a run with these flags.
manifest about_run(const train_options& options, const train_setup& setup);
resume_options resume_options_of(const train_options& options);
saving_options saving_options_of(const train_options& options,
                                 saver_timeouts timeouts = {});

/// A sentence that says what is saved of a run that ended after this step.
std::string summary_of(const train_options& options,
                       const checkpoint_saver& saver, std::int64_t step);

}  // namespace troupe::cli
