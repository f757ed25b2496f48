// How a stage's backwards run LibTorch's engine, whole and split, after a
// second forward where activations are recomputed.
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

namespace troupe {

backward_roots module_compute::roots_of(const saved_forward& saved,
                                        const tensor_lists& gradients,
                                        const slice_carry* later) const {
  backward_roots roots;
  for (const auto& each : output_uses_) {
    const auto& edges = saved.roots.at(each.use);
    const auto& received = gradients.at(each.crossing);
    for (std::size_t i = 0; i < edges.size(); ++i)
      roots.add(edges[i], received.at(each.first + i));
  }
  for (std::size_t i = 0; i < saved.losses.size(); ++i)
    roots.add(saved.losses[i], saved.seeds.at(i));
  if (saved.slice)
    saved.slice->add_roots(roots, later);
  return roots;
}

op_outputs module_compute::run_engine(op_kind kind, saved_forward& saved,
                                      const tensor_lists& gradients,
                                      const slice_carry* later) {
  op_outputs outputs;
  auto leaves = flat(saved.inputs);
  const auto inputs = std::ssize(leaves);
  if (saved.slice)
    std::ranges::copy(saved.slice->leaves(), std::back_inserter(leaves));
  auto roots = roots_of(saved, gradients, later);
  tensor_list leaf_gradients;
  if (kind == op_kind::input_backward) {
    leaf_gradients =
      input_gradients(saved, std::move(roots), leaves, outputs.states);
  } else {
    roots.run();
    for (const auto& leaf : leaves)
      leaf_gradients.push_back(requires_gradient(leaf)
                                 ? std::move(leaf.mutable_grad())
                                 : at::Tensor{});
  }
  outputs.tensors = by_crossing(saved.inputs, leaf_gradients);
  if (saved.slice)
    outputs.states.carry = saved.slice->gradients_for_earlier(
      {leaf_gradients.begin() + inputs, leaf_gradients.end()}, later);
  return outputs;
}

tensor_list module_compute::input_gradients(saved_forward& saved,
                                            backward_roots roots,
                                            const tensor_list& leaves,
                                            stage_states& states) {
  if (!saved.store)
    fail(error_code::internal,
         "stage {} has an input backward (I) in a step that should have none",
         options_.index);
  auto deferred = std::make_shared<deferred_backward>();
  deferred->store = saved.store;
  // The graph lives on in the roots alone, so that it is freed as it is used.
  saved.roots.clear();
  saved.losses.clear();
  const auto split = split_of(*saved.store, leaves);
  auto gradients =
    run_input_backward(std::move(roots), leaves, parameters_, split, *deferred);
  states.deferred = std::move(deferred);
  return gradients;
}

weight_split module_compute::split_of(const weight_gradients& store,
                                      const tensor_list& leaves) const {
  // W would run a layer that does not lead to the inputs again, out of order.
  if (std::ranges::none_of(leaves, requires_gradient)
      || store.shares_parameters())
    return weight_split::layers;
  const auto setting = options_.numerics.backward_split;
  if (setting != weight_split::automatic)
    return setting;
  std::int64_t all = 0, by_layers = 0;
  for (const auto& each : parameters_) {
    all += each.numel();
    by_layers += store.has(each) ? each.numel() : 0;
  }
  return 2 * by_layers >= all ? weight_split::layers : weight_split::graph;
}

/// Splits the gradients of leaves by crossing; they are undefined where no loss
/// depends on an input.
tensor_lists module_compute::by_crossing(const tensor_lists& leaves,
                                         const tensor_list& gradients) const {
  tensor_lists lists;
  std::size_t use = 0, next = 0;
  for (const auto& input : module_->interface().inputs) {
    std::size_t count = 0;
    for (std::size_t u = 0; u < input.uses.size(); ++u)
      count += leaves.at(use++).size();
    const auto first = gradients.begin() + static_cast<std::ptrdiff_t>(next);
    lists.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
    next += count;
  }
  return lists;
}

void module_compute::require_same_buffers(
  const std::vector<std::int64_t>& versions) const {
  const auto after = versions_of(buffers_);
  const auto [first, changed] = std::ranges::mismatch(versions, after);
  if (changed != after.end())
    fail(error_code::invalid_argument,
         "the forward of stage {} changes the buffer '{}', which recompute "
         "would change twice; turn recompute off",
         options_.index,
         module_->buffers_by_name()
           .at(static_cast<std::size_t>(changed - after.begin()))
           .first);
}

void module_compute::run_again(microbatch_key key, saved_forward& saved) {
  const at::AutoGradMode with_graph(true);
  auto second = run_observed(key, saved.inputs, saved.data, saved.earlier,
                             observer::pass::forward_again);
  if (const auto sent = describe(flat(second.sent));
      sent != saved.sent || second.saved.losses.size() != saved.losses.size())
    fail(error_code::op_failed,
         "stage {}: the forward of microbatch {} was recomputed and returned "
         "{}, at first {}; a forward that keeps a state, or draws random "
         "numbers other than by dropout and op_generator, cannot be recomputed",
         options_.index, key.microbatch, sent, saved.sent);
  second.saved.samples = saved.samples;
  saved = std::move(second.saved);
}

}  // namespace troupe
