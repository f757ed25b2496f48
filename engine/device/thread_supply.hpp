#pragma once

#include <cstddef>

namespace troupe {

/// Throws `device` unless so many more threads can run in this process at once:
/// it starts and ends them.
void require_threads(std::size_t count);

}  // namespace troupe
