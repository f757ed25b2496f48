#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/engine/models/layers/layer_functions.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/parameters/weight_casts.hpp"

namespace troupe {

/// A node of LibTorch's graph for one layer or several, of one input. Its
/// backward adds the gradients of parameters straight to their `.grad` (like
/// Megatron-LM's gradient accumulation fusion), in a split backward in W
/// (weight_gradients.hpp), and frees what it has saved as soon as that is read.
/// Cheaper than torch::autograd::Function.
class layer_node : public torch::autograd::Node {
 public:
  /// Saves for the backward.
  std::size_t keep(const at::Tensor& tensor);
  /// Returns a saved tensor, and frees it here unless the graph is kept.
  at::Tensor take(std::size_t index);
  at::Tensor take_parameter(std::size_t index);

  void note(const tensor_list& parameters);
  /// Adds to the gradients of parameters now, or in W.
  template <class Work>
  void add_gradients(Work work) const;
  at::Tensor cast(const at::Tensor& parameter, at::ScalarType type) const {
    return casts_ ? casts_->of(parameter, type) : parameter.to(type);
  }
  /// In a backward: whether the gradient of the input is wanted.
  bool wants_input() const {
    return has_input_ && task_should_compute_output(0);
  }

  torch::autograd::variable_list apply(
    torch::autograd::variable_list&& gradients) final;
  void release_variables() final;

 protected:
  layer_node() = default;
  /// The gradient of the input, or none if it is not wanted.
  virtual at::Tensor backward(at::Tensor gradient) = 0;

 private:
  template <class LayerNode, class Forward>
  friend at::Tensor with_node(const at::Tensor& x, const tensor_list& leaves,
                              const Forward& forward);
  void connect(const at::Tensor& x, const tensor_list& leaves);

  std::vector<torch::autograd::SavedVariable> saved_;
  weight_gradients::pointer store_ = current_store();
  weight_casts::pointer casts_ = current_casts();
  bool has_input_ = false;
};

/// forward(node), with this node in the graph and edges from it to x and to
/// `leaves`, where they need a gradient; one does. With an edge to a parameter
/// to which LibTorch's engine adds, too, it does so last, as in W; each costs a
/// run of the parameter's own node.
template <class LayerNode, class Forward>
at::Tensor with_node(const at::Tensor& x, const tensor_list& leaves,
                     const Forward& forward) {
  std::shared_ptr<LayerNode> node(new LayerNode, torch::autograd::deleteNode);
  node->connect(x, leaves);
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowADInplaceOrView below;
    y = forward(*node);
  }
  torch::autograd::set_history(y, node);
  return y;
}

template <class Work>
void layer_node::add_gradients(Work work) const {
  if (store_)
    store_->add(std::move(work));
  else
    work();
}

// What is saved of a layer, and its part of a forward and of a backward.

struct linear_part {
  at::Tensor run(layer_node& node, const at::Tensor& x,
                 const linear_parameters& parameters);
  /// `rows`: the gradient of the output. The gradient of the input's rows, in
  /// that dtype, if it is wanted.
  at::Tensor backward(layer_node& node, const at::Tensor& rows,
                      bool wants_input);

  std::size_t weight = 0, bias = 0, input = 0;
  bool trains = false, transposed = false;
};

struct embedding_part {
  at::Tensor run(layer_node& node, const at::Tensor& ids,
                 const embedding_layer& layer);
  void backward(layer_node& node, const at::Tensor& gradient);

  std::size_t ids = 0, weight = 0;
  std::int64_t padding = -1;
  bool trains = false;
};

struct norm_part {
  /// `type`: the output's dtype; x's if there is none.
  at::Tensor run(layer_node& node, const at::Tensor& x,
                 const norm_parameters& parameters,
                 std::optional<at::ScalarType> type = {});
  /// `gradient`, of any dtype, and `added`: as those of
  /// `fused::normalize_backward`.
  at::Tensor backward(layer_node& node, const at::Tensor& gradient,
                      const at::Tensor& added = {});

  std::size_t x = 0, weight = 0, bias = 0, mean = 0, scale = 0;
  bool trains = false;
};

}  // namespace troupe
