#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/trainer.hpp"

namespace troupe {

class layer_sequence;

/// Throws `invalid_argument` for options that a trainer can't run with, and
/// says what to do.
void require_legal(const trainer_options& options);

/// Throws `invalid_argument` for a schedule that can't take the place of the
/// one that runs, and says why.
void require_replannable(const schedule& order, const trainer_options& options,
                         const plan& running);

/// Throws `invalid_argument` for a null source.
void require_source(const source_pointer& source);

/// Throws `invalid_argument` for a monitor that can't be meant.
void require_monitor(const monitor& watcher);

/// The layers of each stage: as the options say, else balanced by parameters.
/// Throws `invalid_argument` for a split of another number of stages.
stage_split split_for(const model& layers, const trainer_options& options);

using stage_modules = std::vector<std::shared_ptr<layer_sequence>>;

/// Logs each glob of a monitor that wants tensors and none of these has.
void warn_of_unknown_names(const monitor& watcher, const stage_modules& stages);

}  // namespace troupe
