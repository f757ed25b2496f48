#include "troupe/engine/stage/model.hpp"

#include <algorithm>

namespace troupe {

namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty())
    return prefix + name;
  return prefix + "." + name;
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
  for (const auto& part : parts_)
    values = part.module->forward(values, arguments);
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

module_names layer_sequence::names() const {
  module_names all;
  for (const auto& part : parts_)
    for (const auto& item : part.module->named_modules())
      all.emplace(item.value().get(), join(part.name, item.key()));
  return all;
}

}  // namespace troupe
