#pragma once

#include <optional>
#include <string>

#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe::cli {

/// How steps compute, as the flags say, with the model's loss. Throws
/// `invalid_argument` naming a flag.
numerics numerics_for(const train_options& options, const built_model& model);

/// "bf16"; none for "same" and "none".
std::optional<at::ScalarType> dtype_of(const std::string& word);

}  // namespace troupe::cli
