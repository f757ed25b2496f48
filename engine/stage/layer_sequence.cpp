#include "troupe/engine/stage/layer_sequence.hpp"

#include <ATen/ops/alias.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/error_context.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/parameter_dtypes.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

namespace {

/// Without `indexed` the only tensor is observed as itself, not as a list.
observed_values as_observed(const tensor_list& tensors, bool indexed) {
  observed_values all;
  if (indexed)
    collect(all, tensors);
  else
    collect(all, tensors.at(0));
  return all;
}

bool has_defined(const tensor_list& tensors) {
  return std::ranges::any_of(tensors,
                             [](const auto& each) { return each.defined(); });
}

/// The layers before a range, the range, and those behind, as stages.
stage_split cut_out(const model& layers, layer_range range) {
  stage_split split;
  const auto size = static_cast<std::int32_t>(layers.size());
  for (const auto each :
       {layer_range{0, range.first}, range, layer_range{range.last, size}})
    if (each.last > each.first)
      split.push_back(each);
  if (range.first < 0 || range.last <= range.first || range.last > size)
    fail(error_code::invalid_argument,
         "layers {} to {} of a model of {} are not a stage", range.first,
         range.last - 1, size);
  return split;
}

constexpr std::size_t kept_to_the_end = SIZE_MAX;

/// Aliases of the tensors for one of their uses. The gradients of a use are
/// added up before they are added to those of other uses, as they are if
/// another stage has the use.
tensor_list separate_use(const tensor_list& tensors) {
  auto use = tensors;
  for (auto& each : use)
    if (requires_gradient(each))
      each = at::alias(each);
  return use;
}

const at::Tensor& tensor_at(const tensor_list& tensors, std::int32_t index,
                            const std::string& reader,
                            const std::string& source) {
  if (index >= std::ssize(tensors))
    fail(error_code::invalid_argument, "{} reads tensor {} of {}, of {}",
         reader, index, source, tensors.size());
  return tensors[slot(index)];
}

}  // namespace

std::vector<std::int64_t> versions_of(const tensor_list& tensors) {
  std::vector<std::int64_t> versions;
  versions.reserve(tensors.size());
  for (const auto& each : tensors)
    versions.push_back(each.defined() && !each.is_inference() ? each._version()
                                                              : 0);
  return versions;
}

layer_sequence::layer_sequence(const model& layers, layer_range range)
  : layer_sequence(layers, cut_out(layers, range), range.first > 0 ? 1 : 0) {}

layer_sequence::layer_sequence(const model& layers, const stage_split& split,
                               std::int32_t stage)
  : interface_(interface_of(layers, split, stage)) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    labels_.push_back(label_of(layers, i));
  const auto own = split.at(slot(stage));
  first_ = own.first;
  has_last_ = own.last == std::ssize(layers);
  for (auto i = own.first; i < own.last; ++i) {
    const auto index = slot(i);
    auto& layer = own_layers_.emplace_back();
    layer.name = layers.at(index).name;
    layer.module = make_layer(layers, index);
    take_tied_values(layers, index, *layer.module);
    layer.label = labels_[index];
    layer.loss = layers[index].loss;
    register_module(std::to_string(i), layer.module);
  }
  find_sources(layers, split, own);
}

void layer_sequence::find_sources(const model& layers, const stage_split& split,
                                  layer_range own) {
  const auto reads = reads_of(layers);
  std::vector<int> users(layers.size(), 0);
  for (const auto& each : reads)
    for (const auto& read : each)
      if (read.layer != layer_read::model_inputs)
        ++users[slot(read.layer)];
  std::vector<std::size_t> next_use(split.size(), 0);
  for (std::size_t p = 0; p < own_layers_.size(); ++p) {
    const auto index = p + slot(first_);
    own_layers_[p].last_reader = p;
    own_layers_[p].shared = users[index] + (layers[index].loss ? 1 : 0) > 1;
    for (const auto& read : reads[index]) {
      const auto& input = own_layers_[p].sources.emplace_back(
        source_of(read, split, own, next_use));
      if (input.from == source::kind::own_layer)
        own_layers_[input.number].last_reader = p;
    }
  }
  own_layers_.back().last_reader = kept_to_the_end;
  for (const auto& target : interface_.outputs)
    for (const auto& each : target.tensors)
      own_layers_[slot(each.layer - first_)].last_reader = kept_to_the_end;
}

/// `next_use`: by stage, the next use of one of its single tensors.
layer_sequence::source layer_sequence::source_of(
  const layer_read& read, const stage_split& split, layer_range own,
  std::vector<std::size_t>& next_use) const {
  if (read.layer == layer_read::model_inputs)
    return {source::kind::model_inputs, 0, read.index};
  if (read.layer >= own.first)
    return {source::kind::own_layer, slot(read.layer - own.first), read.index};
  std::size_t first_use = 0;  // of the crossing
  for (const auto& crossing : interface_.inputs) {
    const auto s = slot(crossing.stage);
    if (read.layer < split[s].last)
      return {source::kind::use,
              first_use
                + (read.index == layer_read::all ? crossing.uses.size() - 1
                                                 : next_use[s]++),
              layer_read::all};
    first_use += crossing.uses.size();
  }
  fail(error_code::internal, "layer {} does not cross into a stage",
       read.layer);
}

tensor_list layer_sequence::inputs_of(const own_layer& layer,
                                      const tensor_lists& outputs,
                                      const tensor_lists& uses,
                                      const microbatch_data& data) const {
  tensor_list inputs;
  for (const auto& each : layer.sources) {
    const bool of_model = each.from == source::kind::model_inputs;
    const auto* own = each.from == source::kind::own_layer
                        ? &own_layers_[each.number]
                        : nullptr;
    auto tensors = of_model ? converted(data.inputs, input_dtype_)
                   : own    ? outputs[each.number]
                            : uses.at(each.number);
    if (each.index != layer_read::all)
      tensors = {
        tensor_at(tensors, each.index, layer.label,
                  own ? own->label + "'s outputs" : "the model's inputs")};
    std::ranges::move(own && own->shared ? separate_use(tensors) : tensors,
                      std::back_inserter(inputs));
  }
  return inputs;
}

tensor_list layer_sequence::message_of(const stage_crossing& crossing,
                                       const tensor_lists& outputs) const {
  tensor_list message;
  for (const auto& each : crossing.tensors) {
    const auto position = slot(each.layer - first_);
    if (each.index == layer_read::all)
      message.insert(message.end(), outputs[position].begin(),
                     outputs[position].end());
    else
      message.push_back(tensor_at(outputs[position], each.index,
                                  "a later stage",
                                  own_layers_[position].label + "'s outputs"));
  }
  return message;
}

layer_sequence::result layer_sequence::run(const tensor_lists& uses,
                                           const microbatch_data& data,
                                           const loss_function* last_loss) {
  result total;
  tensor_lists outputs(own_layers_.size());
  for (std::size_t p = 0; p < own_layers_.size(); ++p) {
    const auto& layer = own_layers_[p];
    const auto inputs = inputs_of(layer, outputs, uses, data);
    if (auto* draws = current_draws())
      draws->enter_layer(first_ + static_cast<std::int32_t>(p));
    const bool is_last = has_last_ && p + 1 == own_layers_.size();
    const bool has_last_loss = last_loss && is_last && !layer.loss;
    const auto& loss = has_last_loss ? *last_loss : layer.loss;
    auto terms =
      has_last_loss ? losses_within(layer, loss, inputs, data) : std::nullopt;
    if (!terms) {
      outputs[p] = run(layer, inputs, data.arguments);
      if (is_observed())
        observe_call(*layer.module, as_observed(inputs, true),
                     as_observed(outputs[p], outputs[p].size() > 1));
      if (last_loss && loss)
        terms = losses_of(
          loss, layer.shared ? separate_use(outputs[p]) : outputs[p], data);
    }
    if (terms)
      add_losses(layer, is_last, std::move(*terms), total);
    for (const auto& read : layer.sources)
      if (read.from == source::kind::own_layer
          && own_layers_[read.number].last_reader == p)
        outputs[read.number].clear();
    if (layer.last_reader == p)
      outputs[p].clear();
  }
  for (const auto& crossing : interface_.outputs)
    total.sent.push_back(message_of(crossing, outputs));
  total.outputs = std::move(outputs.back());
  return total;
}

/// The losses that the last layer computes itself, if it does.
std::optional<std::vector<loss_term>> layer_sequence::losses_within(
  const own_layer& layer, const loss_function& loss, const tensor_list& inputs,
  const microbatch_data& data) {
  if (loss.is_cross_entropy())
    return layer.module->losses(inputs, data);
  if (layer.module->adds_losses())
    fail(error_code::invalid_argument,
         "{} adds losses of its own to the cross entropy, which is not the "
         "trainer's loss; turn them off, or keep cross_entropy_loss()",
         layer.label);
  return std::nullopt;
}

/// Losses of the model's last layer come first, and keep their names.
void layer_sequence::add_losses(const own_layer& layer, bool is_last,
                                std::vector<loss_term> terms, result& target) {
  if (!is_last)
    for (auto& term : terms)
      term.name = dotted_name(layer.name, term.name);
  target.losses.insert(is_last ? target.losses.begin() : target.losses.end(),
                       std::move(terms));
}

tensor_list layer_sequence::forward(const tensor_list& inputs) {
  return forward(inputs, {});
}

tensor_list layer_sequence::forward(const tensor_list& inputs,
                                    const tensor_arguments& arguments) {
  const bool is_first = interface_.inputs.empty();
  return run(is_first ? tensor_lists{}
                      : by_use(interface_.inputs.front(), inputs),
             {.inputs = is_first ? inputs : tensor_list{},
              .arguments = arguments})
    .outputs;
}

tensor_list layer_sequence::run(const own_layer& layer,
                                const tensor_list& inputs,
                                const tensor_arguments& arguments) {
  if (!has_defined(inputs) && !layer.module->reads_arguments())
    fail(error_code::invalid_argument,
         "{} receives no tensor: the data source makes microbatches without "
         "inputs",
         layer.label);
  const auto before = versions_of(inputs);
  std::optional<draw_watch> draws;
  if (current_draws() && !std::exchange(layer.watched, true)
      && !layer.module->draws_from_shared_generator())
    draws.emplace();
  auto outputs = with_context(
    layer.label, [&] { return layer.module->forward(inputs, arguments); });
  if (draws && !draws->first().empty())
    fail(error_code::invalid_argument,
         "{} draws random numbers by {} from LibTorch's own generator, which "
         "all threads share, so that they depend on timing; call "
         "troupe::dropout, draw from troupe::op_generator(), or override "
         "draws_from_shared_generator to allow it",
         layer.label, draws->first());
  if (versions_of(inputs) != before)
    fail(error_code::invalid_argument,
         "{} changes its inputs in place, which other layers and the backward "
         "may read; its forward must return new tensors",
         layer.label);
  if (!has_defined(outputs))
    fail(error_code::invalid_argument,
         "{} returned {} instead of a tensor; its forward must return the "
         "input of the next layer, or of the loss",
         layer.label,
         outputs.empty() ? "an empty list" : "only undefined tensors");
  return outputs;
}

void layer_sequence::convert(const parameter_dtypes& to) {
  input_dtype_ = to.parameters;
  for (auto& each : parameters())
    each.set_data(converted(each.detach(), to.parameters));
  for (auto& [name, buffer] : buffers_by_name())
    buffer.set_data(converted(buffer, to.buffers ? to.buffers : to.parameters));
}

bool layer_sequence::reads_model_inputs() const {
  return std::ranges::any_of(own_layers_, [](const own_layer& layer) {
    return std::ranges::any_of(layer.sources, [](const source& each) {
      return each.from == source::kind::model_inputs;
    });
  });
}

bool layer_sequence::reads_arguments() const {
  return std::ranges::any_of(own_layers_, [](const own_layer& layer) {
    return layer.module->reads_arguments();
  });
}

std::string layer_sequence::problem_in_slices() const {
  for (const auto& layer : own_layers_)
    if (!layer.module->runs_in_slices()) {
      const auto reason = layer.module->why_not_in_slices();
      return fmt::format(
        "{} does not run in slices ({})", layer.label,
        reason.empty() ? "stage_module::runs_in_slices" : reason);
    }
  return {};
}

parameter_list layer_sequence::parameters_by_name() const {
  parameter_list all;
  for (const auto& layer : own_layers_)
    std::ranges::move(parameters_of(layer.name, *layer.module),
                      std::back_inserter(all));
  return all;
}

parameter_list layer_sequence::buffers_by_name() const {
  parameter_list all;
  for (const auto& layer : own_layers_)
    std::ranges::move(buffers_of(layer.name, *layer.module),
                      std::back_inserter(all));
  return all;
}

parameter_list layer_sequence::state_dict() const {
  auto all = parameters_by_name();
  std::ranges::move(buffers_by_name(), std::back_inserter(all));
  return all;
}

std::vector<module_entry> layer_sequence::modules_by_name() const {
  std::vector<module_entry> all;
  for (const auto& layer : own_layers_)
    for (const auto& item : layer.module->named_modules())
      if (auto name = dotted_name(layer.name, item.key()); !name.empty())
        all.push_back({item.value().get(), std::move(name)});
  return all;
}

}  // namespace troupe
