#pragma once

#include <concepts>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

class rank_device;

/// One named loss of a microbatch, or of a slice of it. `value` is a scalar
/// tensor, the mean over `count` items. A step reports the loss that it
/// optimises (loss_weighting): the mean over all items of an update where the
/// loss function counts them beforehand, else the mean over microbatches and
/// slices, whose counts must then be equal.
struct loss_term {
  std::string name{};
  at::Tensor value{};
  double count = 1;
  /// The factor in the optimised sum; 0: the loss is only reported.
  double weight = 1;
  /// A scalar tensor instead of `count`, if reading it would make the host
  /// wait.
  at::Tensor counted = {};
};

/// A loss from a sum over items: their mean, or 0 if there is no item.
loss_term loss_of_sum(std::string name, const at::Tensor& sum,
                      const at::Tensor& count);

/// The items that each named loss counts.
using item_counts = std::map<std::string, double>;

/// Computes the losses of a microbatch from the last stage's outputs. With
/// `counts`, which counts from the data alone the items that a loss will be the
/// mean of, every item of an update has the same weight, over all its
/// microbatches, slices and replicas. Nothing waits for a count, unlike in
/// pipelines that learn it at the end of a step (Megatron-LM). A loss that
/// `counts` does not name, such as that of a router, weighs microbatches
/// equally. Called by several threads.
class loss_function {
 public:
  using terms_function = std::function<std::vector<loss_term>(
    const tensor_list& outputs, const microbatch_data& data)>;
  using counts_function =
    std::function<item_counts(const microbatch_data& data)>;

  loss_function() = default;
  template <class Function>
  requires(
    !std::same_as<
      std::remove_cvref_t<Function>,
      loss_function> && std::constructible_from<terms_function, Function>)
    loss_function(Function terms)
    : terms_(std::move(terms)) {}
  loss_function(terms_function terms, counts_function counts)
    : terms_(std::move(terms)), counts_(std::move(counts)) {}

  explicit operator bool() const { return terms_ != nullptr; }
  std::vector<loss_term> operator()(const tensor_list& outputs,
                                    const microbatch_data& data) const {
    return terms_(outputs, data);
  }
  /// Null if none of its losses is counted beforehand.
  const counts_function& counts() const { return counts_; }
  /// Whether it is `cross_entropy_loss`, which a model's last layer may compute
  /// in another way (stage_module::losses).
  bool is_cross_entropy() const { return is_cross_entropy_; }

 private:
  friend loss_function cross_entropy_loss();

  terms_function terms_;
  counts_function counts_;
  bool is_cross_entropy_ = false;
};

/// Makes a loss of a model's first output and a microbatch's first target:
///
///     options.numerics.loss = mean_loss("mse", [](auto& output, auto& target)
///     {
///       return at::mse_loss(output, target);
///     });
///
/// `mean` returns a scalar, the mean over the target's elements, which are the
/// items. Their number has to be the same in all microbatches of an update.
loss_function mean_loss(
  std::string name,
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>
    mean);

/// Calls the function; LibTorch's errors name the loss function.
std::vector<loss_term> losses_of(const loss_function& loss,
                                 const tensor_list& outputs,
                                 const microbatch_data& data);

/// Mean cross entropy, in nats, of logits [..., classes] (the first output)
/// against int64 targets [...] (the first target); named "loss". Targets of
/// -100 are ignored, and not counted; 0 if all are ignored.
loss_function cross_entropy_loss();

/// The number of items that a loss is the mean of; waits for a device's.
double count_of(const loss_term& term);

/// The loss without its graph, to be read later, together with others.
loss_term detached_loss(const loss_term& term);
/// Reads the values and counts of detached losses, of at least one. Those on a
/// device (null: the CPU) are read by one copy, after its compute stream.
std::vector<named_value> read_losses(const std::vector<loss_term>& terms,
                                     rank_device* device);

/// The losses that are optimised, whose weight is not 0. Throws
/// `invalid_argument` if there is none, if one is not a scalar, and, where
/// gradients are enabled, if none has a gradient.
std::vector<loss_term> optimised(const std::vector<loss_term>& terms);

}  // namespace troupe
