#pragma once

#include "troupe/engine/stage/loss.hpp"

namespace troupe::testing {

/// The value that is optimised for one microbatch.
inline at::Tensor sum_of_losses(const std::vector<loss_term>& terms) {
  at::Tensor sum;
  for (const auto& term : optimised(terms)) {
    const auto part = term.value * term.weight;
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

}  // namespace troupe::testing
