#pragma once

#include "troupe/cli/train/train_options.hpp"

namespace troupe::cli {

/// Declares the flags for a --model that is a folder of Hugging Face's
/// transformers, after --model.
void add_folder_flags(CLI::App& app, train_options& options);

}  // namespace troupe::cli
