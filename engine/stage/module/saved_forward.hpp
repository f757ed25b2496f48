#pragma once

#include <torch/csrc/autograd/edge.h>

#include <optional>
#include <string>

#include "troupe/engine/stage/module/saved_tensors.hpp"
#include "troupe/engine/stage/module/slices.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

inline tensor_list flat(const tensor_lists& lists) {
  tensor_list all;
  for (const auto& each : lists)
    all.insert(all.end(), each.begin(), each.end());
  return all;
}

/// A stage's data of a microbatch between its forward and its B or I: without
/// the outputs, whose memory is free once they are sent.
struct saved_forward final : stage_state {
  using edges = std::vector<torch::autograd::Edge>;

  /// Leaves of the graph, by use of an input; backward sends their gradients
  /// on. With recompute: the messages that they come from.
  tensor_lists inputs;
  /// Where backward starts, by use of an output; invalid without a gradient.
  std::vector<edges> roots;
  /// The optimised losses, where backward starts too, and with a graph their
  /// seeds (loss_items.hpp).
  edges losses;
  tensor_list seeds;
  /// The layers' weight gradients, if the backward may be split; else null.
  weight_gradients::pointer store;
  /// The slice of a microbatch in slices.
  std::optional<slice_pass> slice;
  /// With recompute: for the second forward. Shared handles; the data of the
  /// slice alone.
  microbatch_data data;
  slice_carry_pointer earlier;
  bool recompute = false;
  std::string sent = {};  // by the first one: dtypes and shapes
  std::int64_t samples = 1;
  /// Tensors that the forward's graph saved and that are offloaded; null: they
  /// stay.
  std::shared_ptr<saved_tensors> saved = {};

  /// Once all of the above are there, and the carry is handed on.
  void note_inputs() {
    if (!saved)
      return;
    for (auto& use : inputs)
      for (auto& each : use) {
        if (recompute)
          each = saved->keep(each);
        else  // a leaf, whose values the graph has saved where it needs them
          saved->drop_later(each);
      }
    if (recompute)
      data = brought(
        data, [this](const at::Tensor& tensor) { return saved->keep(tensor); });
    if (slice)
      slice->drop_data_with(*saved);
  }
  void offload(rank_device* device) override {
    saved ? saved->to_host(device) : stage_state::offload(device);
  }
  void reload(rank_device* device) override {
    saved ? saved->to_device(device) : stage_state::reload(device);
  }
};

}  // namespace troupe
