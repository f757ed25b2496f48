#pragma once

#include <torch/csrc/autograd/edge.h>

#include <map>
#include <string>

#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// What a stage keeps of a microbatch between its forward and its backward:
/// not the outputs, whose memory is free once they are sent.
struct saved_forward {
  /// Leaves of the graph; their gradients are what backward sends on.
  tensor_list inputs;
  /// Where backward starts, one an output; invalid without a gradient.
  std::vector<torch::autograd::Edge> roots;
  /// Of the optimised loss, on the last stage: a 0-d tensor's options.
  at::Tensor loss_like;
  /// With recompute: what forward is run from again. Shared handles.
  microbatch_data data;
  bool recompute = false;
};

/// Saved forwards by microbatch and slice. Not thread-safe: it belongs to a
/// stage. Errors name the stage and the microbatch.
class activation_store {
 public:
  explicit activation_store(std::string owner) : owner_(std::move(owner)) {}

  /// Throws `internal` if the key is there already (a second forward).
  void put(microbatch_key key, saved_forward saved);
  /// Throws `internal` if there was no forward for the key.
  saved_forward take(microbatch_key key);
  std::size_t size() const { return saved_.size(); }
  /// Throws `internal` naming what is left; called at a step's end.
  void require_empty() const;
  void clear() { saved_.clear(); }

 private:
  std::string owner_;
  std::map<microbatch_key, saved_forward> saved_;
};

}  // namespace troupe
