#pragma once

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

// The two parts of a training plan, each a plan of its own on the same
// placement; in their lanes the ops keep their order. Linear in the ops.

/// All up to the gradients: forwards, backwards, transfers and reductions.
plan gradients_of(const plan& whole);

/// What is done with them: norms and updates.
plan update_of(const plan& whole);

}  // namespace troupe
