#include "troupe/engine/models/layers/layer_node.hpp"

#include <ATen/ops/embedding.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include "troupe/engine/stage/module/autocast.hpp"
#include "troupe/engine/stage/module/saved_tensors.hpp"

namespace troupe {

using torch::autograd::variable_list;

std::size_t layer_node::keep(const at::Tensor& tensor) {
  saved_.emplace_back(tensor, /*is_output=*/false);
  return saved_.size() - 1;
}

at::Tensor layer_node::take(std::size_t index) {
  auto tensor = saved_[index].unpack();
  if (!torch::autograd::get_current_graph_task_keep_graph())
    saved_[index].reset_data();
  return tensor;
}

at::Tensor layer_node::take_parameter(std::size_t index) {
  const auto saved = take(index);
  return saved.defined() ? parameter_of(saved) : saved;
}

void layer_node::note(const tensor_list& parameters) {
  if (store_)
    store_->note(parameters);
}

variable_list layer_node::apply(variable_list&& gradients) {
  const at::AutoDispatchBelowADInplaceOrView below;
  auto gradient = std::move(gradients[0]);
  if (!gradient.defined())
    gradient = input_metadata(0).zeros_like();
  gradients.clear();
  auto before = backward(std::move(gradient));
  variable_list all(num_outputs());
  if (has_input_)
    all[0] = std::move(before);
  return all;
}

void layer_node::release_variables() {
  for (auto& each : saved_)
    each.reset_data();
}

void layer_node::connect(const at::Tensor& x, const tensor_list& leaves) {
  using torch::autograd::impl::gradient_edge;
  has_input_ = x.requires_grad();
  if (has_input_)
    add_next_edge(gradient_edge(x));
  for (const auto& each : leaves)
    if (each.defined() && each.requires_grad())
      add_next_edge(gradient_edge(each));
}

at::Tensor linear_part::run(layer_node& node, const at::Tensor& x,
                            const linear_parameters& p) {
  const auto y = x.to(compute_type(x));
  trains = p.weight.requires_grad();
  transposed = p.transposed;
  weight = node.keep(p.weight);
  if (trains) {
    node.note(p.bias.defined() ? tensor_list{p.weight, p.bias}
                               : tensor_list{p.weight});
    bias = node.keep(p.bias);
    input = node.keep(y);
  }
  return linear_forward(y, p);
}

at::Tensor linear_part::backward(layer_node& node, const at::Tensor& rows,
                                 bool wants_input) {
  const auto factor = node.take_parameter(weight);
  at::Tensor before;
  if (wants_input)
    before =
      linear_backward(rows, node.cast(factor, rows.scalar_type()), transposed);
  if (trains)
    node.add_gradients(
      [p = linear_parameters{factor, node.take_parameter(bias), transposed},
       x = node.take(input), rows] { add_linear_gradients(p, x, rows); });
  return before;
}

at::Tensor embedding_part::run(layer_node& node, const at::Tensor& of,
                               const embedding_layer& layer) {
  trains = layer.weight.requires_grad();
  if (trains) {
    node.note({layer.weight});
    ids = node.keep(of);
    weight = node.keep(layer.weight);
    padding = layer.padding;
  }
  return at::embedding(layer.weight, of, layer.padding);
}

void embedding_part::backward(layer_node& node, const at::Tensor& gradient) {
  node.add_gradients(
    [ids = node.take(ids), weight = node.take_parameter(weight),
     padding = padding,
     gradient] { add_embedding_gradient(weight, ids, gradient, padding); });
}

at::Tensor norm_part::run(layer_node& node, const at::Tensor& of,
                          const norm_parameters& p,
                          std::optional<at::ScalarType> type) {
  trains = p.trains();
  if (trains)
    node.note(p.bias.defined() ? tensor_list{p.weight, p.bias}
                               : tensor_list{p.weight});
  auto result = norm_forward(of, p, type);
  x = node.keep(of);
  weight = node.keep(p.weight);
  bias = node.keep(p.bias);
  mean = node.keep(result.mean);
  scale = node.keep(result.scale);
  return std::move(result.output);
}

at::Tensor norm_part::backward(layer_node& node, const at::Tensor& gradient,
                               const at::Tensor& added) {
  const norm_parameters p{node.take_parameter(weight),
                          node.take_parameter(bias)};
  auto gradients = fused::normalize_backward(
    gradient, node.take(x), {{}, node.take(mean), node.take(scale)}, p.weight,
    p.bias.defined(), added);
  auto before = std::move(gradients.x);
  if (trains)
    node.add_gradients([p, gradients] { add_norm_gradients(p, gradients); });
  return before;
}

}  // namespace troupe
