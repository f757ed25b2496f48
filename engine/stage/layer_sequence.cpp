#include "troupe/engine/stage/layer_sequence.hpp"

#include <algorithm>
#include <set>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/error_context.hpp"

namespace troupe {

namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty())
    return prefix + name;
  return prefix + "." + name;
}

/// Observes a single output as itself, not as a list of one.
observed_values as_observed(const tensor_list& tensors, bool indexed) {
  observed_values all;
  if (indexed)
    collect(all, tensors);
  else
    collect(all, tensors.at(0));
  return all;
}

/// "layer 3 ('blocks.2')".
std::string label_of(const model& layers, std::size_t index) {
  const auto& name = layers[index].name;
  return name.empty() ? fmt::format("layer {}", index)
                      : fmt::format("layer {} ('{}')", index, name);
}

bool holds_a_tensor(const tensor_list& values) {
  return std::ranges::any_of(values,
                             [](const auto& each) { return each.defined(); });
}

}  // namespace

std::shared_ptr<stage_module> make_layer(const model& layers,
                                         std::size_t index) {
  const auto& layer = layers.at(index);
  if (!layer.make)
    fail(error_code::invalid_argument,
         "{} has no function that makes it; set its `make`",
         label_of(layers, index));
  auto made = layer.make();
  if (!made)
    fail(error_code::invalid_argument, "{}: its `make` gave a null pointer",
         label_of(layers, index));
  return made;
}

void require_legal(const model& layers) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (!layers[i].name.empty() && !names.insert(layers[i].name).second)
      fail(error_code::invalid_argument,
           "{} has the name of another layer; its parameters would be taken "
           "for the other's; give each layer a name of its own",
           label_of(layers, i));
}

void require_own_names(const parameter_list& parameters) {
  std::set<std::string> names;
  for (const auto& [name, value] : parameters)
    if (!names.insert(name).second)
      fail(error_code::invalid_argument,
           "two parameters have the name '{}'; give their layers names of "
           "their own",
           name);
}

layer_sequence::layer_sequence(const model& layers, layer_range range) {
  for (auto i = range.first; i < range.last; ++i) {
    const auto at = static_cast<std::size_t>(i);
    parts_.push_back(
      {layers.at(at).name, make_layer(layers, at), label_of(layers, at)});
    register_module(std::to_string(i), parts_.back().module);
  }
}

tensor_list layer_sequence::forward(const tensor_list& inputs) {
  return forward(inputs, {});
}

tensor_list layer_sequence::forward(const tensor_list& inputs,
                                    const tensor_arguments& arguments) {
  auto values = inputs;
  for (const auto& part : parts_) {
    auto outputs = run(part, values, arguments);
    if (auto* seen_by = current_observer(); seen_by && seen_by->watches())
      seen_by->called(*part.module, as_observed(values, true),
                      as_observed(outputs, outputs.size() > 1));
    values = std::move(outputs);
  }
  return values;
}

tensor_list layer_sequence::run(const part& which, const tensor_list& inputs,
                                const tensor_arguments& arguments) {
  if (!holds_a_tensor(inputs) && !which.module->reads_arguments())
    fail(error_code::invalid_argument,
         "{} is given no tensor: the data source makes microbatches without "
         "inputs",
         which.label);
  auto outputs = with_context(
    which.label, [&] { return which.module->forward(inputs, arguments); });
  if (!holds_a_tensor(outputs))
    fail(error_code::invalid_argument,
         "{} returned {} instead of a tensor; its forward has to return what "
         "the next layer, or the loss, is given",
         which.label,
         outputs.empty() ? "an empty list" : "undefined tensors alone");
  return outputs;
}

bool layer_sequence::reads_arguments() const {
  return std::ranges::any_of(
    parts_, [](const part& p) { return p.module->reads_arguments(); });
}

parameter_list layer_sequence::parameters_by_name() const {
  parameter_list all;
  for (const auto& part : parts_)
    for (const auto& item : part.module->named_parameters())
      all.emplace_back(join(part.name, item.key()), item.value());
  return all;
}

std::vector<module_entry> layer_sequence::modules_by_name() const {
  std::vector<module_entry> all;
  for (const auto& part : parts_)
    for (const auto& item : part.module->named_modules())
      if (auto name = join(part.name, item.key()); !name.empty())
        all.push_back({item.value().get(), std::move(name)});
  return all;
}

}  // namespace troupe
