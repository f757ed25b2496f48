#pragma once

#include <cstdint>

#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe::cli {

/// The most stages into which --split can cut a model.
std::int64_t most_stages(const partition_options& options,
                         const built_model& model);

/// Sets the stages per rank and the slices that no flag sets: the usual ones of
/// the schedule where the layers and the rows suffice, as many as --split
/// lists, or else 1, which is logged.
void set_usual_sizes(train_options& options, const built_model& model);

}  // namespace troupe::cli
