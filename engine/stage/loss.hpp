#pragma once

#include <functional>
#include <string>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

class rank_device;

/// One named loss of a microbatch. `value` is a scalar tensor, the mean over
/// `count` items. Steps report the mean over all items, with microbatches
/// weighted by their counts, but optimise the mean over microbatches, with
/// equal weights. Both are the same if the counts are.
struct loss_term {
  std::string name;
  at::Tensor value;
  double count = 1;
  /// Factor in the optimised sum; 0: reported only.
  double weight = 1;
  /// A scalar tensor instead of `count`, if reading it would make the host
  /// wait.
  at::Tensor counted = {};
};

/// Computes the losses of a microbatch from the last stage's outputs.
using loss_function = std::function<std::vector<loss_term>(
  const tensor_list& outputs, const microbatch_data& data)>;

/// Calls the function; LibTorch's errors name the loss function.
std::vector<loss_term> losses_of(const loss_function& loss,
                                 const tensor_list& outputs,
                                 const microbatch_data& data);

/// Mean cross entropy, in nats, of logits [..., classes] (the first output)
/// against int64 targets [...] (the first target); named "loss". Targets of
/// -100 are ignored, and not counted; 0 if all are ignored.
loss_function cross_entropy_loss();

/// The number of items that a loss is the mean of; waits for it.
double count_of(const loss_term& term);

/// The loss without its graph, to be read later, together with others.
loss_term kept_loss(const loss_term& term);
/// The values and counts of such losses, of at least one; of a device (null:
/// the CPU) by one copy, for whose compute stream the host waits.
std::vector<named_value> read_losses(const std::vector<loss_term>& terms,
                                     rank_device* device);

/// The optimised sum: weight times value of each term, a scalar.
at::Tensor weighted_sum(const std::vector<loss_term>& terms);

}  // namespace troupe
