#pragma once

#include <string>
#include <vector>

#include "troupe/actors/trainer.hpp"

namespace troupe {

/// Throws `invalid_argument` for options that a trainer can't run with, and
/// says what to do.
void require_legal(const trainer_options& options);

/// Throws `invalid_argument` for a schedule that can't take the place of the
/// one that runs, and says why.
void require_replannable(const schedule& order, const trainer_options& options,
                         const plan& running);

/// Throws `invalid_argument` for a null source.
void require_source(const source_pointer& source);

/// Throws `invalid_argument` for a smaller number of `what`, as "steps".
void require_at_least(std::int64_t least, std::int64_t count, const char* what);

/// Throws `invalid_argument` for an invalid monitor.
void require_monitor(const monitor& watcher);

/// The layers of each stage: as the options say, else balanced by parameters.
/// Throws `invalid_argument` for a split of another number of stages.
stage_split split_for(const model& layers, const trainer_options& options);

/// Logs each glob of a monitor that wants tensors and that matches none of
/// these names of modules and parameters.
void warn_of_unknown_names(const monitor& watcher,
                           const std::vector<std::string>& names);

}  // namespace troupe
