#include "troupe/engine/models/layers/joined_node.hpp"

#include <algorithm>

#include "troupe/engine/events/observer.hpp"
#include "troupe/engine/stage/module/autocast.hpp"

namespace troupe {

joined_node::joined_node() : observer_(watching_observer()) {}

void joined_node::publish(const torch::nn::Module& module,
                          const at::Tensor& input,
                          const at::Tensor& output) const {
  if (observer_)
    observer_->called(module, {{input, tensor_content::tensor, 0}}, {{output}});
}

bool joined_node::shows_output(const torch::nn::Module& module) const {
  return observer_ && observer_->reads_output(module);
}

bool joined_node::shows_gradient(const torch::nn::Module& module) const {
  return observer_ && observer_->reads_gradient(module);
}

void joined_node::publish_gradient(const torch::nn::Module& module,
                                   const at::Tensor& gradient) const {
  if (observer_)
    observer_->gradient(module, gradient);
}

at::Tensor joined_linear::run(joined_node& node, const linear_layer& layer,
                              const layer_input& x) {
  module = &layer;
  auto y = part.run(node, x.value, layer.as_parameters());
  node.publish(layer, x.shown, y);
  if (node.is_observed())
    sizes = y.sizes().vec();
  return y;
}

at::Tensor joined_linear::backward(joined_node& node, const at::Tensor& rows,
                                   bool wants_input) {
  if (node.is_observed() && (part.trains || wants_input))
    node.publish_gradient(*module, rows.view(sizes));
  return part.backward(node, rows, wants_input);
}

layer_input joined_norm::run(joined_node& node, const norm_layer& layer,
                             const at::Tensor& x) {
  module = &layer;
  type = x.scalar_type();
  const auto wanted = compute_type(x);
  const auto y = part.run(node, x, layer.as_parameters(),
                          node.is_observed() ? type : wanted);
  node.publish(layer, x, y);
  return {y.to(wanted), y};
}

at::Tensor joined_norm::backward(joined_node& node, const at::Tensor& gradient,
                                 const at::Tensor& added) {
  if (node.shows_gradient(*module))
    node.publish_gradient(*module, gradient.to(type));
  return part.backward(node, gradient, added);
}

tensor_list parameters_of(const norm_layer& norm, const layer_list& layers) {
  tensor_list all{norm.weight, norm.bias};
  for (const auto* each : layers)
    if (each)
      all.push_back(each->weight);
  return all;
}

/// LibTorch's engine adds nothing to the parameters of a node, so that no edge
/// is needed for the order of sums; but a split backward asks it for gradients
/// at leaves, and it runs only nodes that lead to one.
tensor_list leaf_of(const at::Tensor& x, const tensor_list& parameters) {
  if (x.requires_grad() && !current_store())
    return {};
  const auto found = std::ranges::find_if(parameters, requires_gradient);
  return found == parameters.end() ? tensor_list{} : tensor_list{*found};
}

bool joins(const at::Tensor& x, const tensor_list& parameters) {
  return at::GradMode::is_enabled() && (x.is_cpu() || x.is_cuda())
         && (x.requires_grad()
             || std::ranges::any_of(parameters, requires_gradient));
}

namespace {

bool is_part(const linear_layer* layer) {
  return !layer || (!layer->has_adapter() && layer->trains_as_one());
}

}  // namespace

bool joins(const at::Tensor& x, const norm_layer& norm,
           const layer_list& layers) {
  return joins(x, parameters_of(norm, layers)) && x.dim() == 3
         && x.is_contiguous() && normalizes(x, norm.as_parameters())
         && std::ranges::all_of(layers, is_part);
}

}  // namespace troupe
