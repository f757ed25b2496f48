#include "troupe/engine/stage/layer_sequence.hpp"

#include <algorithm>

namespace troupe {

namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty())
    return prefix + name;
  return prefix + "." + name;
}

/// A single output counts as one, not as a list of one.
observed_values as_observed(const tensor_list& tensors, bool indexed) {
  observed_values all;
  if (indexed)
    collect(all, tensors);
  else
    collect(all, tensors.at(0));
  return all;
}

}  // namespace

layer_sequence::layer_sequence(const model& layers, layer_range range) {
  for (auto i = range.first; i < range.last; ++i) {
    const auto& layer = layers.at(static_cast<std::size_t>(i));
    parts_.push_back({layer.name, layer.make()});
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
    auto outputs = part.module->forward(values, arguments);
    if (auto* seen_by = current_observer(); seen_by && seen_by->watches())
      seen_by->called(*part.module, as_observed(values, true),
                      as_observed(outputs, outputs.size() > 1));
    values = std::move(outputs);
  }
  return values;
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
