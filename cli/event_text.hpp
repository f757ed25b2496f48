#pragma once

#include <string>

#include "troupe/engine/events/event.hpp"

namespace troupe::cli {

/// An event as lines for people, each with a newline. `steps` of the whole
/// run.
std::string text_of(const event& what, std::int64_t steps);

}  // namespace troupe::cli
