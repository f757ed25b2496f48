#pragma once

#include <string>

#include "troupe/schedules/op.hpp"

namespace troupe {

/// "2F3", or "2F3.1" if the schedule splits microbatches into slices; "2F3@1"
/// on the other copy of the stage.
std::string to_text(const op& what, bool with_slice = false);

}  // namespace troupe
