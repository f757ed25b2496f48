#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/mean.h>

#include <vector>

#include "small_model.hpp"

namespace troupe::testing {

// Data and a loss for custom models of tests.

/// A loss: the mean of the first output.
inline std::vector<loss_term> mean_of(const tensor_list& outputs,
                                      const microbatch_data&) {
  return {{"loss", at::mean(outputs[0])}};
}

/// Microbatch i holds 1 to 8 plus i, fp32 [2, 4].
inline source_pointer small_rows() {
  return make_source([](std::int64_t index) {
    microbatch_data data;
    data.inputs = {at::arange(1, 9, at::kFloat).reshape({2, 4})
                   + static_cast<double>(index)};
    return data;
  });
}

}  // namespace troupe::testing
