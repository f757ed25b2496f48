#pragma once

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

// Parts of a plan; the ops keep their order within lanes. Linear in the ops.

/// All of it, with the reductions on the compute stream: nothing of a rank is
/// computed beside them.
plan without_overlapped_reductions(plan whole);

/// The compute ops.
schedule schedule_of(const plan& whole);

// The two parts of a training plan, each a plan of its own on the same
// placement.

/// Everything up to the gradients: forwards, backwards, transfers, reductions.
plan gradients_of(const plan& whole);

/// Everything after them: norms and updates.
plan update_of(const plan& whole);

}  // namespace troupe
