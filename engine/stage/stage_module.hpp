#pragma once

#include <torch/nn/module.h>

#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/events/observe.hpp"
#include "troupe/engine/stage/loss.hpp"

namespace troupe {

/// A part of a model that can be used in a pipeline: maps tensors to tensors.
/// Its outputs are the inputs of the next part's `forward`. It must not change
/// its inputs in place, as others may read them. Tensors that carry gradients
/// must be floating point or complex; integer tensors (token ids) pass through
/// without. Called by one thread at a time, not always the same one.
class stage_module : public torch::nn::Module {
 public:
  virtual tensor_list forward(const tensor_list& inputs) = 0;

  /// Override for modules that read a microbatch's arguments (masks, position
  /// ids).
  virtual tensor_list forward(const tensor_list& inputs,
                              const tensor_arguments&) {
    return forward(inputs);
  }

  /// Computes the losses of a model's last layer in place of `forward` and the
  /// trainer's `cross_entropy_loss`, without holding all outputs at once, as
  /// those of a large vocabulary. It is not called for another loss function.
  /// None: the module leaves the loss to the trainer.
  virtual std::optional<std::vector<loss_term>> losses(
    const tensor_list& /*inputs*/, const microbatch_data& /*data*/) {
    return std::nullopt;
  }

  /// Whether `losses` of a model's last layer adds to the cross entropy, so
  /// that the trainer's loss must be `cross_entropy_loss`.
  virtual bool adds_losses() const { return false; }

  /// Whether the module takes a microbatch in slices along dimension 1 of its
  /// tensors, one after the other: it treats each position alone, or looks at
  /// earlier positions by means of slices.hpp.
  virtual bool runs_in_slices() const { return false; }
  /// Says for errors why it does not, if the module knows: "its loss is ...".
  virtual std::string why_not_in_slices() const { return {}; }

  /// Whether `forward` may draw from LibTorch's own generator, which all
  /// threads share, so that bits depend on timing; if not, the first forward
  /// that does is an error. See random.hpp for draws that don't.
  virtual bool draws_from_shared_generator() const { return false; }

  /// Whether `forward` reads the arguments; if not, they aren't loaded for a
  /// stage that needs neither inputs nor targets.
  virtual bool reads_arguments() const { return false; }
};

}  // namespace troupe
