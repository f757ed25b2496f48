#pragma once

#include <string>

#include "troupe/engine/events/event.hpp"

namespace troupe::cli {

/// An event as readable lines, each with a newline. `steps`: the whole run's.
std::string text_of(const event& what, std::int64_t steps);

}  // namespace troupe::cli
