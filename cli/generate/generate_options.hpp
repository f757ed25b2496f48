#pragma once

#include <string>
#include <vector>

#include "troupe/cli/generate/stored_model.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/generation/generation.hpp"

namespace troupe::cli {

/// The flags of `troupe generate`.
struct generate_options {
  generate_options() { run.partition.shape = {}; }

  std::string checkpoint;
  wanted_model model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::vector<std::string> stops;
  generation_request usual;  // but for its ids
  generation_options generation;
  bool past_text_ends = false;
  bool ids = false;
  bool json = false;
  /// The pipeline, its devices and processes, as train has them.
  train_options run;
};

/// Declares the flags, with their help, on a subcommand.
void add_generate_flags(CLI::App& app, generate_options& options);

}  // namespace troupe::cli
