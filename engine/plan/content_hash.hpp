#pragma once

#include <cstdint>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// A hash of everything in a plan but its name: equal plans have equal hashes,
/// also in different processes of the same program.
std::uint64_t content_hash(const plan& plan);

}  // namespace troupe
