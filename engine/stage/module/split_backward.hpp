#pragma once

#include <torch/csrc/autograd/edge.h>

#include <vector>

#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/numerics.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

/// The edges at which LibTorch's engine starts, and their gradients.
struct backward_roots {
  void add(const torch::autograd::Edge& edge, const at::Tensor& gradient);
  /// Adds to the gradients of all leaves, and frees the graph.
  void run() const;
  /// Adds to the gradients of roots that are leaves, without running their
  /// hooks: these have run.
  void accumulate();

  std::vector<torch::autograd::Edge> edges;
  tensor_list gradients;
};

/// The work that I leaves for W.
struct deferred_backward final : stage_state {
  deferred_backward() = default;
  deferred_backward(const deferred_backward&) = delete;
  deferred_backward& operator=(const deferred_backward&) = delete;
  ~deferred_backward() override {
    if (store)
      store->drop();  // the step may have ended early
  }

  weight_gradients::pointer store;
  backward_roots computed;  // gradients of parameters that I has computed
  backward_roots rest;
};

/// Runs the input backward of a split backward. Returns the gradients of
/// `inputs`, undefined where there are none, in memory that nothing else reads.
/// Frees what W does not need. After `run_weight_backward`, and not before, the
/// gradients of parameters equal those of a full backward, bit for bit. Hooks
/// of leaves run once; those of other tensors may run in I and again in W.
/// `deferred.store`: that of the forward.
tensor_list run_input_backward(backward_roots roots, const tensor_list& inputs,
                               const tensor_list& parameters,
                               weight_split split, deferred_backward& deferred);

void run_weight_backward(deferred_backward& deferred);

}  // namespace troupe
