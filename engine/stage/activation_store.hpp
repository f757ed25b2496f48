#pragma once

#include <torch/csrc/autograd/edge.h>

#include <map>
#include <string>

#include "troupe/engine/stage/microbatch.hpp"

namespace troupe {

/// A stage's data of a microbatch between its forward and its backward: without
/// the outputs, whose memory is free once they are sent.
struct saved_forward {
  using edges = std::vector<torch::autograd::Edge>;

  /// Leaves of the graph, by use of an input; backward sends their gradients
  /// on. With recompute: the messages that they come from.
  tensor_lists inputs{};
  /// Where backward starts, by use of an output; invalid without a gradient.
  std::vector<edges> roots{};
  /// The optimised losses, where backward starts too, and a 0-d tensor with the
  /// options of each.
  edges losses{};
  tensor_list losses_like{};
  /// With recompute: for the second forward. Shared handles.
  microbatch_data data{};
  bool recompute = false;
  std::int64_t samples = 1;
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
