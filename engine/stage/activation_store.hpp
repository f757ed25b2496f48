#pragma once

#include <torch/csrc/autograd/edge.h>

#include <map>
#include <string>

#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// A stage's data of a microbatch between its forward and its backward: without
/// the outputs, whose memory is free once they are sent.
struct saved_forward {
  /// Leaves of the graph; backward sends their gradients on.
  tensor_list inputs;
  /// Where backward starts, one per output; invalid without a gradient.
  std::vector<torch::autograd::Edge> roots;
  /// On the last stage: a 0-d tensor with the optimised loss's options.
  at::Tensor loss_like;
  /// With recompute: the inputs of the second forward. Shared handles.
  microbatch_data data;
  bool recompute = false;
};

/// Saved forwards by microbatch and slice. Not thread-safe: it belongs to a
/// stage. Errors name the stage and the microbatch.
class activation_store {
 public:
  explicit activation_store(std::string owner) : owner_(std::move(owner)) {}

  /// Throws `internal` if the key is present already (a second forward).
  void put(microbatch_key key, saved_forward saved);
  /// Throws `internal` if there was no forward for the key.
  saved_forward take(microbatch_key key);
  std::size_t size() const { return saved_.size(); }
  /// Throws `internal` naming what is left; call it at a step's end.
  void require_empty() const;
  void clear() { saved_.clear(); }

 private:
  std::string owner_;
  std::map<microbatch_key, saved_forward> saved_;
};

}  // namespace troupe
