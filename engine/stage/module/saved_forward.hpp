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

/// What a stage keeps of a microbatch between its forward and its B or I. The
/// outputs are not kept: their memory is free once they are sent.
struct saved_forward final : stage_state {
  using edges = std::vector<torch::autograd::Edge>;

  /// The graph's leaves, by use of an input, whose gradients the backward sends
  /// on. With recompute: the messages that they come from.
  tensor_lists inputs;
  /// The edges where the backward starts, by use of an output; invalid ones
  /// without a gradient.
  std::vector<edges> roots;
  /// The optimised losses, where the backward starts too, and with a graph
  /// their seeds (loss_items.hpp).
  edges losses;
  tensor_list seeds;
  /// The layers' weight gradients, if the backward may be split; else null.
  weight_gradients::pointer store;
  /// The slice, if the microbatch runs in slices.
  std::optional<slice_pass> slice;
  /// With recompute, the input of the second forward: shared handles, and the
  /// data of the slice alone.
  microbatch_data data;
  slice_carry_pointer earlier;
  bool recompute = false;
  std::string sent = {};  // dtypes and shapes that the first forward has sent
  std::int64_t samples = 1;
  /// The tensors that the forward's graph saved, if they are offloaded; else
  /// null.
  std::shared_ptr<saved_tensors> graph_tensors = {};

  /// Call it once all members are set, and the carry is handed on.
  void prepare_offload() {
    if (!graph_tensors)
      return;
    const auto keep = [this](const at::Tensor& tensor) {
      return graph_tensors->keep(tensor);
    };
    for (auto& use : inputs)
      for (auto& each : use) {
        if (recompute)
          each = keep(each);
        else  // a leaf, whose values the graph has saved where it needs them
          graph_tensors->drop_later(each);
      }
    if (recompute)
      data = transformed(data, keep);
    if (slice)
      slice->drop_data_with(*graph_tensors);
  }
  void offload(rank_device* device) override {
    graph_tensors ? graph_tensors->to_host(device)
                  : stage_state::offload(device);
  }
  void reload(rank_device* device) override {
    graph_tensors ? graph_tensors->to_device(device)
                  : stage_state::reload(device);
  }
};

}  // namespace troupe
