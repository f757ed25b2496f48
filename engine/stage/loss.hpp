#pragma once

#include <functional>
#include <string>
#include <vector>

#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// One named loss of a microbatch. `value` is a scalar tensor, the mean over
/// `count` items; steps report the count-weighted mean.
struct loss_term {
  std::string name;
  at::Tensor value;
  double count = 1;
  /// Factor in the optimised sum; 0: only reported.
  double weight = 1;
};

/// From the last stage's outputs to the losses of a microbatch.
using loss_function = std::function<std::vector<loss_term>(
  const tensor_list& outputs, const microbatch_data& data)>;

/// Mean cross entropy, in nats, of logits [..., classes] (the first output)
/// against int64 targets [...] (the first target); named "loss".
loss_function cross_entropy_loss();

/// The sum that is optimised: weight times value of each term, a scalar.
at::Tensor weighted_sum(const std::vector<loss_term>& terms);

}  // namespace troupe
