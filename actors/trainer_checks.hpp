#pragma once

#include "troupe/actors/trainer.hpp"

namespace troupe {

/// Throws `invalid_argument` for options that a trainer can't run with, and
/// says what to do.
void require_legal(const trainer_options& options);

}  // namespace troupe
