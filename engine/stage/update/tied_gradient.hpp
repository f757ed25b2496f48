#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// A gradient among those of a stage that is added to others.
struct tied_gradient {
  std::size_t position = 0;  // in the list of the stage's gradients
  std::int32_t tie = 0;      // which of the model's
  bool counts = true;        // the owner's
};

}  // namespace troupe
