#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <unordered_set>
#include <vector>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace torch::autograd {
struct AutogradContext;
struct Node;
}  // namespace torch::autograd

namespace troupe {

/// The weight gradients of one forward that its layers compute apart from the
/// gradients of their inputs: in the weight backward (W) of a split backward
/// (the weight-gradient store of zero bubble, Qi et al., 2024). A layer that
/// supports this is an autograd function that notes the store in its forward,
/// and gives it the work in its backward; see engine/models/layers/layers.cpp.
/// Used by one thread at a time, but the engine's threads may differ from the
/// forward's.
class weight_gradients final : public torch::CustomClassHolder {
 public:
  using pointer = c10::intrusive_ptr<weight_gradients>;

  /// Notes that a layer's function reads these parameters.
  void note(const tensor_list& parameters);
  /// Whether such a function reads the parameter.
  bool has(const at::Tensor& parameter) const {
    return parameters_.contains(parameter.unsafeGetTensorImpl());
  }

  /// Whether several functions read one parameter, so that their order counts.
  bool shares_parameters() const { return shares_parameters_; }

  /// Whether this node of a graph has added work to be done in `run`.
  bool has_work_of(const torch::autograd::Node* node) const {
    return nodes_.contains(node);
  }
  /// Does the work now or, between `defer` and `run`, in `run`.
  void add(std::function<void()> work);
  void defer() { deferring_ = true; }
  /// Does what was deferred, in its order, and frees the tensors of each.
  void run();
  /// Frees what was deferred: it may own the graph, which owns this.
  void drop() { deferred_.clear(); }

 private:
  bool deferring_ = false;
  bool shares_parameters_ = false;
  std::vector<std::function<void()>> deferred_;
  std::unordered_set<const torch::autograd::Node*> nodes_;
  std::unordered_set<const at::TensorImpl*> parameters_;
};

/// The store that is current on this thread.
weight_gradients::pointer& current_store();
/// Makes a store, or none, current.
using weight_gradients_scope =
  current_scope<weight_gradients::pointer, current_store>;

/// Lets the backward of a function that reads these parameters find the store
/// that is current in its forward, which calls this.
void note_store(torch::autograd::AutogradContext& context,
                const tensor_list& parameters);
/// Gives the work to that store, or does it if there is none. Backwards call
/// it.
void add_weight_gradients(torch::autograd::AutogradContext& context,
                          std::function<void()> work);

/// Adds a gradient to `.grad`, or sets that, as LibTorch's engine does.
void accumulate_gradient(const at::Tensor& parameter, at::Tensor gradient);

}  // namespace troupe
