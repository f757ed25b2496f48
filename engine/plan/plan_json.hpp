#pragma once

#include <string>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// A plan for other programs: sizes; `ranks`, each a list of ops with the
/// indices of the ops that they depend on; and `channels`. Ops count over
/// all ranks.
std::string to_json(const plan& of);

}  // namespace troupe
