#pragma once

#include <string>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// A plan as JSON: sizes; `ranks`, each a list of ops with the indices of their
/// dependencies; and `channels`. Ops are numbered over all ranks.
std::string to_json(const plan& plan);

}  // namespace troupe
