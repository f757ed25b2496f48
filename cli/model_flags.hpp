#pragma once

#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe::cli {

struct model_flags {
  std::string name = "gpt";
  option_values values;  // of the options of all models
  std::string initial;
};

/// Declares --model, and a flag for each option of the registered models,
/// grouped by the models that have it.
void add_model_flags(CLI::App& app, model_flags& flags);

/// The long names of the flags that the chosen model does not have.
std::vector<std::string> flags_of_other_models(const model_flags& flags);

}  // namespace troupe::cli
