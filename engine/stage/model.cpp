#include "troupe/engine/stage/model.hpp"

#include <ATen/MemoryOverlap.h>

#include <set>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

std::string dotted_name(const std::string& prefix, const std::string& name) {
  if (prefix.empty() || name.empty())
    return prefix + name;
  return prefix + "." + name;
}

namespace {

/// `name`: of the factory function, for messages.
std::shared_ptr<stage_module> make_by(
  const std::function<std::shared_ptr<stage_module>()>& make, const char* name,
  const model& layers, std::size_t index) {
  if (!make)
    fail(error_code::invalid_argument,
         "{} has no factory function; set its `{}`", label_of(layers, index),
         name);
  std::shared_ptr<stage_module> module;
  try {
    module = make();
  } catch (const error&) {
    throw;
  } catch (...) {
    std::throw_with_nested(
      error(error_code::invalid_argument,
            fmt::format("{}: its `{}` failed: {}", label_of(layers, index),
                        name, thrown_text())));
  }
  if (!module)
    fail(error_code::invalid_argument, "{}: its `{}` returned a null pointer",
         label_of(layers, index), name);
  return module;
}

}  // namespace

std::shared_ptr<stage_module> make_layer(const model& layers,
                                         std::size_t index) {
  return make_by(layers.at(index).make, "make", layers, index);
}

std::shared_ptr<stage_module> make_layer_shapes(const model& layers,
                                                std::size_t index) {
  const auto& layer = layers.at(index);
  return layer.make_on_meta
           ? make_by(layer.make_on_meta, "make_on_meta", layers, index)
           : make_layer(layers, index);
}

parameter_list parameters_of(const std::string& layer_name,
                             const stage_module& module) {
  parameter_list all;
  for (const auto& item : module.named_parameters())
    all.emplace_back(dotted_name(layer_name, item.key()), item.value());
  return all;
}

parameter_list buffers_of(const std::string& layer_name,
                          const stage_module& module) {
  parameter_list all;
  for (const auto& item : module.named_buffers())
    if (item.value().defined())
      all.emplace_back(dotted_name(layer_name, item.key()), item.value());
  return all;
}

void require_legal(const model& layers) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (!layers[i].name.empty() && !names.insert(layers[i].name).second)
      fail(error_code::invalid_argument,
           "{} has the name of another layer, so their parameters could not be "
           "told apart; give each layer its own name",
           label_of(layers, i));
  if (layers.empty())
    throw error(error_code::invalid_argument, "the model has no layer");
  for (std::size_t i = 0; i + 1 < layers.size(); ++i)
    if (layers[i].loss && layers[i].name.empty())
      fail(error_code::invalid_argument,
           "{} has a loss and no name to report it under; name the layer",
           label_of(layers, i));
  reads_of(layers);
}

void require_own_names(const parameter_list& tensors) {
  std::set<std::string> names;
  for (const auto& [name, value] : tensors)
    if (!names.insert(name).second)
      fail(error_code::invalid_argument,
           "two parameters or buffers have the name '{}'; give their layers "
           "different names",
           name);
}

void distinct_parameters::add(const parameter_list& parameters) {
  for (const auto& [name, value] : parameters) {
    if (at::has_internal_overlap(value) == at::MemOverlap::Yes)
      fail(error_code::invalid_argument,
           "elements of the parameter '{}' share memory, as those of an "
           "expanded tensor do; make it contiguous",
           name);
    if (!value.is_non_overlapping_and_dense())
      fail(
        error_code::invalid_argument,
        "the elements of the parameter '{}' have gaps between them, as those "
        "of a part of another tensor do; make it contiguous",
        name);
    const auto [first, is_new] =
      names_.emplace(value.unsafeGetTensorImpl(), name);
    if (!is_new)
      fail(error_code::invalid_argument,
           "the parameters '{}' and '{}' are the same tensor; return a new "
           "module from each call of `make`, register a submodule once, and "
           "share weights between layers with `ties`",
           first->second, name);
  }
}

}  // namespace troupe
