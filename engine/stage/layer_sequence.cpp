#include "troupe/engine/stage/layer_sequence.hpp"

#include <ATen/ops/alias.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/stage/error_context.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/random_draws.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

namespace {

/// Observes a single output as itself, not as a list of one.
observed_values as_observed(const tensor_list& tensors, bool indexed) {
  observed_values all;
  if (indexed)
    collect(all, tensors);
  else
    collect(all, tensors.at(0));
  return all;
}

bool holds_a_tensor(const tensor_list& values) {
  return std::ranges::any_of(values,
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
  if (range.last <= range.first || range.last > size)
    fail(error_code::invalid_argument,
         "layers {} to {} of a model of {} are not a stage", range.first,
         range.last - 1, size);
  return split;
}

constexpr std::size_t kept_to_the_end = SIZE_MAX;

/// The tensors as one use of them, whose gradients are added up before they
/// join those of other uses: as where another stage has the use.
tensor_list own_use(const tensor_list& tensors) {
  tensor_list use;
  for (const auto& each : tensors)
    use.push_back(each.defined() && each.requires_grad() ? at::alias(each)
                                                         : each);
  return use;
}

const at::Tensor& tensor_at(const tensor_list& values, std::int32_t index,
                            const std::string& reader,
                            const std::string& giver) {
  if (index >= std::ssize(values))
    fail(error_code::invalid_argument, "{} reads tensor {} of {}, of {}",
         reader, index, giver, values.size());
  return values[slot(index)];
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
    auto& entry = parts_.emplace_back();
    entry.name = layers.at(index).name;
    entry.module = make_layer(layers, index);
    take_tied_values(layers, index, *entry.module);
    entry.label = labels_[index];
    entry.loss = layers[index].loss;
    register_module(std::to_string(i), entry.module);
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
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const auto layer = p + slot(first_);
    parts_[p].last_reader = p;
    parts_[p].shared = users[layer] + (layers[layer].loss ? 1 : 0) > 1;
    for (const auto& read : reads[layer]) {
      const auto found = source_of(read, split, own, next_use);
      parts_[p].sources.push_back(found);
      if (found.from == source::kind::part)
        parts_[found.number].last_reader = p;
    }
  }
  parts_.back().last_reader = kept_to_the_end;
  for (const auto& target : interface_.outputs)
    for (const auto& each : target.tensors)
      parts_[slot(each.layer - first_)].last_reader = kept_to_the_end;
}

/// `next_use`: by stage, of its single tensors.
layer_sequence::source layer_sequence::source_of(
  const layer_read& read, const stage_split& split, layer_range own,
  std::vector<std::size_t>& next_use) const {
  if (read.layer == layer_read::model_inputs)
    return {source::kind::model_inputs, 0, read.index};
  if (read.layer >= own.first)
    return {source::kind::part, slot(read.layer - own.first), read.index};
  std::size_t first = 0;  // use of a crossing
  for (const auto& start : interface_.inputs) {
    const auto s = slot(start.stage);
    if (read.layer < split[s].last)
      return {source::kind::use,
              first
                + (read.index == layer_read::all ? start.uses.size() - 1
                                                 : next_use[s]++),
              layer_read::all};
    first += start.uses.size();
  }
  fail(error_code::internal, "layer {} does not cross into a stage",
       read.layer);
}

tensor_list layer_sequence::inputs_of(const part& which,
                                      const tensor_lists& outputs,
                                      const tensor_lists& uses,
                                      const microbatch_data& data) const {
  tensor_list inputs;
  for (const auto& each : which.sources) {
    const bool of_model = each.from == source::kind::model_inputs;
    const auto& values = of_model ? data.inputs
                         : each.from == source::kind::part
                           ? outputs[each.number]
                           : uses.at(each.number);
    const bool shared =
      each.from == source::kind::part && parts_[each.number].shared;
    auto read = of_model ? converted(values, input_dtype_) : values;
    if (each.index != layer_read::all)
      read = {tensor_at(read, each.index, which.label,
                        of_model ? "the model's inputs"
                                 : parts_[each.number].label + "'s outputs")};
    std::ranges::move(shared ? own_use(read) : read,
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
                                  parts_[position].label + "'s outputs"));
  }
  return message;
}

layer_sequence::result layer_sequence::run(const tensor_lists& uses,
                                           const microbatch_data& data,
                                           const loss_function* last_loss) {
  result done;
  tensor_lists outputs(parts_.size());
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const auto& part = parts_[p];
    const auto inputs = inputs_of(part, outputs, uses, data);
    if (auto* draws = current_draws())
      draws->enter_layer(first_ + static_cast<std::int32_t>(p));
    const bool is_last = has_last_ && p + 1 == parts_.size();
    const auto* loss =
      last_loss && is_last && !part.loss ? last_loss : &part.loss;
    auto terms = loss == last_loss && last_loss
                   ? losses_within(part, *loss, inputs, data)
                   : std::nullopt;
    if (!terms) {
      outputs[p] = run(part, inputs, data.arguments);
      if (is_observed())
        observe_call(*part.module, as_observed(inputs, true),
                     as_observed(outputs[p], outputs[p].size() > 1));
      if (last_loss && *loss)
        terms = losses_of(*loss, part.shared ? own_use(outputs[p]) : outputs[p],
                          data);
    }
    if (terms)
      add_losses(part, is_last, std::move(*terms), done);
    for (const auto& read : part.sources)
      if (read.from == source::kind::part
          && parts_[read.number].last_reader == p)
        outputs[read.number].clear();
    if (part.last_reader == p)
      outputs[p].clear();
  }
  for (const auto& target : interface_.outputs)
    done.sent.push_back(message_of(target, outputs));
  done.outputs = std::move(outputs.back());
  return done;
}

/// Losses that the last layer computes itself.
std::optional<std::vector<loss_term>> layer_sequence::losses_within(
  const part& which, const loss_function& loss, const tensor_list& inputs,
  const microbatch_data& data) {
  if (loss.is_cross_entropy())
    return which.module->losses(inputs, data);
  if (which.module->adds_losses())
    fail(error_code::invalid_argument,
         "{} adds losses of its own to the cross entropy, which is not the "
         "trainer's loss; turn them off, or keep cross_entropy_loss()",
         which.label);
  return std::nullopt;
}

/// Those of the model's last layer first, under their own names.
void layer_sequence::add_losses(const part& subject, bool is_last,
                                std::vector<loss_term> terms, result& target) {
  if (!is_last)
    for (auto& term : terms)
      term.name = dotted_name(subject.name, term.name);
  target.losses.insert(is_last ? target.losses.begin() : target.losses.end(),
                       std::move(terms));
}

tensor_list layer_sequence::forward(const tensor_list& inputs) {
  return forward(inputs, {});
}

tensor_list layer_sequence::forward(const tensor_list& inputs,
                                    const tensor_arguments& arguments) {
  microbatch_data data;
  data.arguments = arguments;
  if (interface_.inputs.empty())
    data.inputs = inputs;
  const auto uses = interface_.inputs.empty()
                      ? tensor_lists{}
                      : by_use(interface_.inputs.front(), inputs);
  return run(uses, data).outputs;
}

tensor_list layer_sequence::run(const part& which, const tensor_list& inputs,
                                const tensor_arguments& arguments) {
  if (!holds_a_tensor(inputs) && !which.module->reads_arguments())
    fail(error_code::invalid_argument,
         "{} receives no tensor: the data source makes microbatches without "
         "inputs",
         which.label);
  const auto before = versions_of(inputs);
  const bool watches = current_draws() && !std::exchange(which.watched, true)
                       && !which.module->draws_from_shared_generator();
  std::optional<draw_watch> drawn;
  if (watches)
    drawn.emplace();
  auto outputs = with_context(
    which.label, [&] { return which.module->forward(inputs, arguments); });
  if (drawn && !drawn->found().empty())
    fail(error_code::invalid_argument,
         "{} draws random numbers by {} from LibTorch's own generator, which "
         "all threads share, so that they depend on timing; call "
         "troupe::dropout, draw from troupe::op_generator(), or override "
         "draws_from_shared_generator to allow it",
         which.label, drawn->found());
  if (versions_of(inputs) != before)
    fail(error_code::invalid_argument,
         "{} changes its inputs in place, which other layers and the backward "
         "may read; its forward must return new tensors",
         which.label);
  if (!holds_a_tensor(outputs))
    fail(error_code::invalid_argument,
         "{} returned {} instead of a tensor; its forward must return the "
         "input of the next layer, or of the loss",
         which.label,
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
  return std::ranges::any_of(parts_, [](const part& p) {
    return std::ranges::any_of(p.sources, [](const source& each) {
      return each.from == source::kind::model_inputs;
    });
  });
}

bool layer_sequence::reads_arguments() const {
  return std::ranges::any_of(
    parts_, [](const part& p) { return p.module->reads_arguments(); });
}

std::string layer_sequence::problem_in_slices() const {
  const auto found = std::ranges::find_if_not(
    parts_, [](const part& p) { return p.module->runs_in_slices(); });
  if (found == parts_.end())
    return {};
  const auto why = found->module->why_not_in_slices();
  return fmt::format("{} does not run in slices ({})", found->label,
                     why.empty() ? "stage_module::runs_in_slices" : why);
}

parameter_list layer_sequence::parameters_by_name() const {
  parameter_list all;
  for (const auto& part : parts_)
    std::ranges::move(parameters_of(part.name, *part.module),
                      std::back_inserter(all));
  return all;
}

parameter_list layer_sequence::buffers_by_name() const {
  parameter_list all;
  for (const auto& part : parts_)
    std::ranges::move(buffers_of(part.name, *part.module),
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
  for (const auto& part : parts_)
    for (const auto& item : part.module->named_modules())
      if (auto name = dotted_name(part.name, item.key()); !name.empty())
        all.push_back({item.value().get(), std::move(name)});
  return all;
}

}  // namespace troupe
