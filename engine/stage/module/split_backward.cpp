#include "troupe/engine/stage/module/split_backward.hpp"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/utils/grad_layout_contract.h>
#include <torch/csrc/autograd/variable.h>

#include <unordered_map>
#include <utility>

namespace troupe {

namespace {

using torch::autograd::Edge;
using torch::autograd::edge_list;
using torch::autograd::Engine;
using torch::autograd::Node;
using torch::autograd::variable_list;

variable_list gradients_at(const edge_list& targets,
                           const backward_roots& roots, bool keeps_graph) {
  if (roots.edges.empty())
    return variable_list(targets.size());
  return Engine::get_default_engine().execute(
    roots.edges, roots.gradients, keeps_graph, /*create_graph=*/false,
    /*accumulate_grad=*/false, targets);
}

Edge accumulator_of(const at::Tensor& leaf) {
  return torch::autograd::impl::gradient_edge(leaf);
}

/// Whether nothing else refers to the tensor's memory.
bool owns_memory_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1
         && (!tensor.has_storage() || tensor.storage().use_count() == 1);
}

/// The gradient as `.grad` of the leaf would hold it. A copy is made of one
/// that has passed through unchanged, as another leaf, or W, reads it too, and
/// either may be added to.
at::Tensor laid_out(at::Tensor gradient, const at::Tensor& leaf) {
  using namespace torch::autograd::utils;
  return !gradient.defined()
             || (owns_memory_alone(gradient)
                 && obeys_layout_contract(gradient, leaf))
           ? std::move(gradient)
           : clone_obey_contract(gradient, leaf);
}

/// The leaves to which a node leads.
struct reach {
  bool inputs = false;
  bool parameters = false;
};

/// LibTorch's graph of a forward: which nodes lead to the inputs, to
/// parameters, or to both.
class graph_reach {
 public:
  /// `inputs`: the accumulators of the inputs, which must outlive this object.
  explicit graph_reach(const edge_list& inputs) {
    for (const auto& each : inputs)
      reach_[each.function.get()].inputs = true;
  }

  /// Depth first, without recursion: graphs are deep.
  void visit(Node* root) {
    std::vector<std::pair<Node*, std::size_t>> open;
    const auto enter = [&](Node* node) {
      if (reach_.contains(node))
        return;
      const auto& next = node->next_edges();
      reach_[node].parameters = next.empty();  // a leaf, and not of the inputs
      open.emplace_back(node, 0);
      order_.push_back(node);
    };
    enter(root);
    while (!open.empty()) {
      auto& [node, next] = open.back();
      const auto& edges = node->next_edges();
      if (next < edges.size()) {
        if (auto* child = edges[next++].function.get())
          enter(child);
        continue;
      }
      auto& own = reach_[node];
      for (const auto& edge : edges)
        if (edge.is_valid()) {
          const auto& child = reach_.at(edge.function.get());
          own.inputs |= child.inputs;
          own.parameters |= child.parameters;
        }
      open.pop_back();
    }
  }

  bool on_path(const Edge& edge) const {
    return edge.is_valid() && reach_.at(edge.function.get()).inputs;
  }

  /// The nodes on the path to the inputs with an edge off it that leads to a
  /// parameter.
  std::vector<Node*> cut() const {
    std::vector<Node*> cut;
    for (auto* node : order_) {
      if (!reach_.at(node).inputs)
        continue;
      for (const auto& edge : node->next_edges())
        if (edge.is_valid() && !on_path(edge)
            && reach_.at(edge.function.get()).parameters) {
          cut.push_back(node);
          break;
        }
    }
    return cut;
  }

  /// Frees the tensors that nodes on the path to the inputs have saved, except
  /// those of a cut. A tensor that a cut saves refers to the nodes that made
  /// it.
  void release_but(const std::vector<Node*>& cut) const {
    auto next = cut.begin();
    for (auto* node : order_)
      if (next != cut.end() && *next == node)
        ++next;
      else if (reach_.at(node).inputs)
        node->release_variables();
  }

 private:
  std::unordered_map<const Node*, reach> reach_;
  std::vector<Node*> order_;
};

/// The gradients of inputs from those of targets, which begin with the
/// accumulators of those inputs that have one.
tensor_list gradients_of(const tensor_list& inputs,
                         variable_list target_gradients) {
  tensor_list gradients;
  std::size_t next = 0;
  for (const auto& each : inputs)
    gradients.push_back(requires_gradient(each)
                          ? laid_out(std::move(target_gradients[next++]), each)
                          : at::Tensor{});
  return gradients;
}

edge_list accumulators_of(const tensor_list& inputs) {
  edge_list targets;
  for (const auto& each : inputs)
    if (requires_gradient(each))
      targets.push_back(accumulator_of(each));
  return targets;
}

/// The gradients of parameters that the layers compute themselves stay
/// undefined here: they are in the store.
tensor_list split_by_layers(const backward_roots& roots,
                            const tensor_list& inputs,
                            const tensor_list& parameters,
                            deferred_backward& deferred) {
  auto targets = accumulators_of(inputs);
  const auto first = targets.size();
  std::unordered_set<const Node*> added;
  for (const auto& each : parameters)
    if (each.requires_grad()) {
      auto edge = accumulator_of(each);
      if (added.insert(edge.function.get()).second)
        targets.push_back(std::move(edge));
    }
  auto gradients = gradients_at(targets, roots, false);
  for (auto i = first; i < targets.size(); ++i)
    deferred.computed.add(targets[i], std::exchange(gradients[i], {}));
  return gradients_of(inputs, std::move(gradients));
}

tensor_list split_graph(backward_roots roots, const tensor_list& inputs,
                        deferred_backward& deferred) {
  auto targets = accumulators_of(inputs);
  const auto first = targets.size();
  graph_reach graph(targets);
  for (const auto& root : roots.edges)
    graph.visit(root.function.get());
  backward_roots now;
  for (std::size_t i = 0; i < roots.edges.size(); ++i)
    (graph.on_path(roots.edges[i]) ? now : deferred.rest)
      .add(roots.edges[i], roots.gradients[i]);
  roots = {};
  const auto cut = graph.cut();
  for (auto* node : cut)
    for (std::uint32_t input = 0; input < node->num_inputs(); ++input)
      targets.emplace_back(node->getptr(), input);
  auto gradients = gradients_at(targets, now, true);
  std::vector<Node*> run_again;  // in W
  auto next = first;
  for (auto* node : cut) {
    const bool is_in_store = deferred.store->has_work_of(node);
    if (!is_in_store)
      run_again.push_back(node);
    for (std::uint32_t input = 0; input < node->num_inputs(); ++input, ++next)
      if (!is_in_store)
        deferred.rest.add(targets[next], std::exchange(gradients[next], {}));
  }
  graph.release_but(run_again);
  // Nodes behind a cut that nothing else holds are freed with the edge to them.
  for (auto* node : run_again)
    for (auto& edge : node->next_edges())
      if (graph.on_path(edge))
        edge = {};
  return gradients_of(inputs, std::move(gradients));
}

}  // namespace

void backward_roots::add(const Edge& edge, const at::Tensor& gradient) {
  if (!edge.is_valid() || !gradient.defined())
    return;
  edges.push_back(edge);
  gradients.push_back(gradient);
}

void backward_roots::run() const {
  if (!edges.empty())
    Engine::get_default_engine().execute(edges, gradients, /*keep_graph=*/false,
                                         /*create_graph=*/false,
                                         /*accumulate_grad=*/true, {});
}

/// Calls the accumulators itself, as the engine would run hooks again.
void backward_roots::accumulate() {
  for (std::size_t i = 0; i < edges.size(); ++i) {
    auto& gradient = gradients[i];
    const bool is_sole = owns_memory_alone(gradient);
    (*edges[i].function)({is_sole ? std::move(gradient) : gradient.clone()});
  }
}

tensor_list run_input_backward(backward_roots roots, const tensor_list& inputs,
                               const tensor_list& parameters,
                               weight_split split,
                               deferred_backward& deferred) {
  deferred.store->defer();
  return split == weight_split::graph
           ? split_graph(std::move(roots), inputs, deferred)
           : split_by_layers(roots, inputs, parameters, deferred);
}

void run_weight_backward(deferred_backward& deferred) {
  deferred.store->run();
  std::exchange(deferred.computed, {}).accumulate();
  std::exchange(deferred.rest, {}).run();
}

}  // namespace troupe
