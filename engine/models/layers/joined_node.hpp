#pragma once

#include <vector>

#include "troupe/engine/models/layers/layer_node.hpp"

namespace troupe {

class observer;

/// A node of several layers (joined_layers.hpp). Monitors see each as if it was
/// called, and the gradient of its output if its layer takes part in the
/// backward.
class joined_node : public layer_node {
 public:
  bool is_observed() const { return observer_ != nullptr; }
  /// In the forward.
  void publish(const torch::nn::Module& module, const at::Tensor& input,
               const at::Tensor& output) const;
  /// Whether a monitor wants the module's output, or its gradient.
  bool shows_output(const torch::nn::Module& module) const;
  bool shows_gradient(const torch::nn::Module& module) const;
  /// In the backward, of the module's output: a tensor that the node has made,
  /// or one that it got, but no view of that. Below autograd a view has another
  /// version, by which an observer knows what it has measured.
  void publish_gradient(const torch::nn::Module& module,
                        const at::Tensor& gradient) const;

 protected:
  joined_node();

 private:
  observer* observer_;  // null: nobody watches
};

/// What a layer reads: where one casts to a dtype first, monitors see what it
/// casts.
struct layer_input {
  at::Tensor value, shown;
};

struct joined_linear {
  at::Tensor run(joined_node& node, const linear_layer& layer,
                 const layer_input& x);
  /// `rows`: the gradient of the output. That of the input's rows, if wanted.
  at::Tensor backward(joined_node& node, const at::Tensor& rows,
                      bool wants_input);
  bool trains() const { return part.trains; }

  linear_part part;
  const linear_layer* module = nullptr;
  std::vector<std::int64_t> sizes;  // of the output
};

struct joined_norm {
  layer_input run(joined_node& node, const norm_layer& layer,
                  const at::Tensor& x);
  /// `gradient`: of any dtype. `added`: as that of `fused::normalize_backward`.
  at::Tensor backward(joined_node& node, const at::Tensor& gradient,
                      const at::Tensor& added = {});
  bool is_wanted(const joined_node& node) const {
    return part.trains || node.wants_input();
  }

  norm_part part;
  const norm_layer* module = nullptr;
  at::ScalarType type{};  // of the output, before a cast
};

/// Whether layers with these parameters may be one node, and there is anything
/// to train.
bool joins(const at::Tensor& x, const tensor_list& parameters);

/// The parameter to which a node of layers needs an edge, or none.
tensor_list leaf_of(const at::Tensor& x, const tensor_list& parameters);

using layer_list = std::vector<const linear_layer*>;  // null: none

/// Whether a norm of x: [rows, positions, width] and linear layers may be one.
bool joins(const at::Tensor& x, const norm_layer& norm,
           const layer_list& layers);
tensor_list parameters_of(const norm_layer& norm, const layer_list& layers);

/// forward(node) of a norm of x and linear layers, or undefined.
template <class Node, class Forward>
at::Tensor joined(const at::Tensor& x, const norm_layer& norm,
                  const layer_list& layers, const Forward& forward) {
  if (!joins(x, norm, layers))
    return {};
  return with_node<Node>(x, leaf_of(x, parameters_of(norm, layers)), forward);
}

}  // namespace troupe
