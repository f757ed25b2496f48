#pragma once

#include <functional>
#include <string>
#include <vector>

#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// One named loss of a microbatch. `value` is a scalar tensor, the mean over
/// `count` items. What steps report is the mean over all items: microbatches
/// weigh by their counts. What is optimised is the mean over microbatches,
/// which weigh alike. Both are the same where counts are.
struct loss_term {
  std::string name;
  at::Tensor value;
  double count = 1;
  /// Factor in the optimised sum; 0: only reported.
  double weight = 1;
  /// A scalar tensor in place of `count`, where the host would have to wait for
  /// it.
  at::Tensor counted = {};
};

/// From the last stage's outputs to the losses of a microbatch.
using loss_function = std::function<std::vector<loss_term>(
  const tensor_list& outputs, const microbatch_data& data)>;

/// Mean cross entropy, in nats, of logits [..., classes] (the first output)
/// against int64 targets [...] (the first target); named "loss". Targets of
/// -100 are ignored, and not counted; 0 where all are.
loss_function cross_entropy_loss();

/// How many items a loss is the mean of; waits for it.
double count_of(const loss_term& term);

/// The sum that is optimised: weight times value of each term, a scalar.
at::Tensor weighted_sum(const std::vector<loss_term>& terms);

}  // namespace troupe
