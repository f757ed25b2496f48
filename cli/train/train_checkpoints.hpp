#pragma once

#include "troupe/cli/train/train_options.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/training/trainer_saver.hpp"

namespace troupe::cli {

/// What messages call the flags.
checkpoint_words words_of(const train_options& options);
/// What checkpoints tell of a run with these flags.
manifest about_run(const train_options& options, const train_setup& setup);
resume_options resuming(const train_options& options);
saving_options saving(const train_options& options,
                      saver_timeouts timeouts = {});

/// A sentence that says what is saved of a run that ended with this step.
std::string summary_of(const train_options& options,
                       const checkpoint_saver& saver, std::int64_t step);

}  // namespace troupe::cli
