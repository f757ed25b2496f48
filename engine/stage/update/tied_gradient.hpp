#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// A gradient of a stage that is added to those of the tie's other holders.
struct tied_gradient {
  std::size_t position = 0;  // in the list of the stage's gradients
  std::int32_t tie = 0;      // index among the model's ties
  bool is_owner = true;      // whether it is the owner's, which norms count
};

}  // namespace troupe
