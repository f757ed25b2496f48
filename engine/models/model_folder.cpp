#include "troupe/engine/models/model_folder.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/util/accumulate.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/events/globs.hpp"
#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"
#include "troupe/engine/models/decoders/lora.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr auto config_name = "config.json";
constexpr auto adapter_name = "adapter_config.json";
constexpr auto single_name = "model.safetensors";
constexpr auto index_name = "model.safetensors.index.json";

std::string in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

/// transformers would load one that PEFT has saved beside the weights.
void require_no_adapter(const std::string& folder) {
  std::error_code trouble;
  const auto adapter = in(folder, adapter_name);
  if (fs::exists(adapter, trouble))
    refuse_checkpoint(adapter,
                      "the folder holds an adapter, which would be left out; "
                      "merge it (merge_and_unload) or move it away");
}

decoder_options options_of(const std::string& text, const std::string& origin) {
  model_config config(text, origin);
  auto options = read_decoder(config);
  try {
    require_legal(options);
  } catch (const error& why) {
    refuse_checkpoint(origin, why.what());
  }
  return options;
}

/// What published files hold besides parameters: masks, frequencies.
bool is_buffer(const std::string& name) {
  for (const auto* end : {".attn.bias", ".attn.masked_bias", ".attention.bias",
                          ".attention.masked_bias", ".rotary_emb.inv_freq"})
    if (name.ends_with(end))
      return true;
  return false;
}

/// The part of each tensor, by an index.
std::map<std::string, std::string> parts_of(const std::string& index) {
  const auto fields = parsed_object(read_file(index), index);
  const auto map = fields.find("weight_map");
  if (map == fields.end() || !map->is_object() || map->empty())
    refuse_checkpoint(index, "has no weight_map");
  std::map<std::string, std::string> parts;
  for (const auto& [name, part] : map->items()) {
    const auto file = part.is_string() ? part.get<std::string>() : "";
    if (file.empty() || file.front() == '.'
        || file.find_first_of(std::string_view("/\0", 2)) != file.npos)
      refuse_checkpoint(index, fmt::format("names '{}' as the part of {}",
                                           printable(file), printable(name)));
    parts.emplace(name, file);
  }
  return parts;
}

using shape_visitor =
  std::function<void(const std::string& name, at::IntArrayRef shape)>;

/// Layer by layer, without memory for values; a tied head is left out.
void visit_shapes(const decoder_options& options, const shape_visitor& visit) {
  const auto layers = decoder(options, nullptr, at::kFloat);
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, value] :
         parameters_of(layers[i].name, *make_layer_shapes(layers, i)))
      if (!options.tied || name != options.names.head + ".weight")
        visit(name, value.sizes());
}

/// The modules that have adapters, and the last parts of the names of those
/// that can.
struct linear_modules {
  std::vector<std::string> adapted, all;
};

linear_modules linear_modules_of(const decoder_options& options) {
  linear_modules found;
  std::set<std::string> names;
  visit_shapes(options, [&](const std::string& name, at::IntArrayRef shape) {
    const auto module = name.substr(0, name.rfind('.'));
    if (is_adapter(name))
      found.adapted.push_back(module.substr(0, module.rfind('.')));
    else if (shape.size() == 2 && name.starts_with(options.names.blocks))
      names.insert(module.substr(module.rfind('.') + 1));
  });
  found.all.assign(names.begin(), names.end());
  return found;
}

/// Throws `invalid_argument` if adapters are wanted, and no module is meant.
void require_adapted(const decoder_options& options) {
  if (options.choices.lora.rank == 0)
    return;
  const auto modules = linear_modules_of(options);
  if (modules.adapted.empty())
    fail(error_code::invalid_argument,
         "--lora-modules {}: matches no linear module; they are {}",
         printable(options.choices.lora.modules), fmt::join(modules.all, ", "));
}

built_model built(decoder_options options, const decoder_choices& choices,
                  parameter_filler fill, at::ScalarType dtype) {
  options.choices = choices;
  require_adapted(options);
  built_model result;
  result.layers = decoder(options, std::move(fill), dtype);
  result.blocks = {1, 1 + static_cast<std::int32_t>(options.layers)};
  visit_shapes(options, [&](const std::string& name, at::IntArrayRef shape) {
    const auto count = static_cast<double>(c10::multiply_integers(shape));
    result.parameters += count;
    if (choices.lora.rank > 0 && !is_adapter(name))
      result.frozen += count;
  });
  return result;
}

}  // namespace

bool is_model_folder(const std::string& path) {
  std::error_code trouble;
  return fs::is_regular_file(in(path, config_name), trouble);
}

model_folder::model_folder(std::string path, folder_use use)
  : path_(std::move(path)) {
  const auto config = in(path_, config_name);
  config_ = read_file(config);
  options_ = std::make_shared<decoder_options>(options_of(config_, config));
  if (use == folder_use::from_scratch)
    return;
  require_no_adapter(path_);
  weights_ = std::make_shared<const safetensors_files>(open_weights(path_));
  // Published files of GPT-2 name the model's inside alone.
  const auto tokens = options_->names.tokens + ".weight";
  const auto inside = tokens.find('.') + 1;
  if (!weights_->find(tokens) && weights_->find(tokens.substr(inside)))
    left_out_ = tokens.substr(0, inside);
  require_weights();
}

std::string model_folder::stored_name(const std::string& name) const {
  return !left_out_.empty() && name.starts_with(left_out_)
           ? name.substr(left_out_.size())
           : name;
}

void model_folder::require_weights() const {
  std::set<std::string> expected;
  visit_shapes(*options_, [&](const std::string& name, at::IntArrayRef shape) {
    require_stored(stored_name(name), shape);
    expected.insert(stored_name(name));
  });
  if (options_->tied)
    expected.insert(require_same_head());
  for (const auto& entry : weights_->entries())
    if (!expected.contains(entry.name) && !is_buffer(entry.name))
      refuse_checkpoint(
        weights_->path_of(entry.name),
        fmt::format("has {}, which the model of {} does not have",
                    printable(entry.name), config_name));
}

void model_folder::require_stored(const std::string& name,
                                  at::IntArrayRef shape) const {
  const auto* entry = weights_->find(name);
  if (!entry)
    refuse_checkpoint(weights_->all()[0]->path() == in(path_, single_name)
                        ? in(path_, single_name)
                        : in(path_, index_name),
                      fmt::format("has no {}", name));
  if (at::IntArrayRef(entry->shape) != shape)
    refuse_checkpoint(
      weights_->path_of(name),
      fmt::format("has {} of shape [{}], and {} describes one of [{}]", name,
                  fmt::join(entry->shape, ", "), config_name,
                  fmt::join(shape, ", ")));
  if (!at::isFloatingType(entry->dtype) || !is_loadable(entry->dtype))
    refuse_checkpoint(weights_->path_of(name),
                      fmt::format("has {} of {}; a parameter is of F64, F32, "
                                  "F16 or BF16: convert the model to one",
                                  name, at::toString(entry->dtype)));
}

std::string model_folder::require_same_head() const {
  const auto head = options_->names.head + ".weight";
  if (const auto* entry = weights_->find(head)) {
    const auto tokens = stored_name(options_->names.tokens + ".weight");
    require_stored(head, weights_->find(tokens)->shape);
    if (entry->dtype != weights_->find(tokens)->dtype
        || !weights_->same_bytes(head, tokens))
      refuse_checkpoint(
        weights_->path_of(head),
        fmt::format("has {} that differs from {}, though {} ties them; set its "
                    "tie_word_embeddings to false, or remove {}",
                    head, tokens, config_name, head));
  }
  return head;
}

std::int64_t model_folder::vocabulary() const {
  return options_->vocabulary;
}

built_model model_folder::build(at::ScalarType dtype, std::uint64_t seed,
                                const decoder_choices& choices) const {
  auto fill = fresh_parameters(*options_, seed);
  if (weights_)
    fill = [self = *this, dtype](const std::string& name,
                                 at::Tensor& parameter) {
      const auto& o = *self.options_;
      const bool is_tied = o.tied && name == o.names.head + ".weight";
      const auto stored =
        self.stored_name(is_tied ? o.names.tokens + ".weight" : name);
      const auto value = self.weights_->read(stored);
      if (dtype == at::kHalf && overflows(value, dtype))
        refuse_checkpoint(
          self.weights_->path_of(stored),
          fmt::format("has {} with values beyond the range of fp16", stored));
      parameter.set_data(value.to(dtype));
    };
  auto result = built(*options_, choices, std::move(fill), dtype);
  result.folder = std::make_shared<const model_folder>(*this);
  return result;
}

built_model model_of_config(const std::string& config,
                            const std::string& origin,
                            const decoder_choices& choices) {
  return built(options_of(config, origin), choices, nullptr, at::kFloat);
}

std::vector<std::string> differing_fields(const std::string& a,
                                          const std::string& b,
                                          const std::string& origin) {
  const auto read = [&](const std::string& text) {
    auto options = options_of(text, origin);
    options.dropout = {};  // which leaves no trace in a checkpoint
    return options;
  };
  const auto model = read(a);
  if (read(b) == model)
    return {};
  const auto before = parsed_object(a, origin);
  const auto after = parsed_object(b, origin);
  auto both = before;
  both.update(after);
  std::vector<std::string> different, decisive;
  for (const auto& [name, any] : both.items()) {
    auto changed = before;
    changed[name] = after.value(name, nlohmann::json());
    if (changed == before)
      continue;
    different.push_back(name);
    try {
      if (read(changed.dump()) == model)
        continue;
    } catch (const error&) {  // not without another change
    }
    decisive.push_back(name);
  }
  return decisive.empty() ? different : decisive;
}

void model_folder::require_each_module(const lora_options& lora) const {
  if (lora.rank == 0 || lora.modules == lora_options{}.modules)
    return;
  auto options = *options_;
  options.choices.lora = lora;
  const auto modules = linear_modules_of(options);
  require_globs(lora.modules);
  for (const auto& glob : globs_of(lora.modules)) {
    const auto is_meant = [&](const std::string& module) {
      return means_module(glob, module);
    };
    if (std::ranges::any_of(modules.adapted, is_meant))
      continue;
    const auto similar = did_you_mean(glob, modules.all);
    fail(error_code::invalid_argument,
         "--lora-modules: '{}' matches no linear module{}", printable(glob),
         similar.empty()
           ? fmt::format("; they are {}", fmt::join(modules.all, ", "))
           : similar);
  }
}

std::vector<std::string> model_folder::files() const {
  std::vector<std::string> all{in(path_, config_name)};
  if (weights_)
    for (const auto& file : weights_->all())
      all.push_back(file->path());
  return all;
}

safetensors_files open_weights(const std::string& folder) {
  std::error_code trouble;
  safetensors_files weights;
  if (fs::exists(in(folder, single_name), trouble)) {
    weights.add(in(folder, single_name));
    return weights;
  }
  const auto index = in(folder, index_name);
  if (!fs::exists(index, trouble))
    fail(error_code::io, "{}: has neither {} nor {}{}", printable(folder),
         single_name, index_name,
         fs::exists(in(folder, "pytorch_model.bin"), trouble)
             || fs::exists(in(folder, "pytorch_model.bin.index.json"), trouble)
           ? "; convert its pytorch_model.bin with save_pretrained of a newer "
             "transformers"
           : "");
  const auto parts = parts_of(index);
  std::set<std::string> names;
  for (const auto& [name, part] : parts)
    names.insert(part);
  for (const auto& part : names)
    weights.add(in(folder, part));
  for (const auto& [name, part] : parts)
    if (!weights.find(name) || weights.path_of(name) != in(folder, part))
      refuse_checkpoint(index,
                        fmt::format("says that {} is in {}, which it is not",
                                    printable(name), printable(part)));
  return weights;
}

std::vector<std::int64_t> text_ends_of(const std::string& fields,
                                       const std::string& origin) {
  const auto parsed = parsed_object(fields, origin);
  const auto found = parsed.find("eos_token_id");
  if (found == parsed.end() || found->is_null())
    return {};
  std::vector<std::int64_t> ids;
  const auto add = [&](const nlohmann::json& id) {
    if (!id.is_number_integer())
      refuse_checkpoint(
        origin, fmt::format("eos_token_id is {}, not an id or a list of them",
                            printable(found->dump())));
    ids.push_back(id.get<std::int64_t>());
  };
  if (found->is_array())
    for (const auto& id : *found)
      add(id);
  else
    add(*found);
  return ids;
}

std::vector<std::int64_t> text_ends_in(const std::string& folder) {
  auto source = in(folder, "generation_config.json");
  std::error_code trouble;
  if (!fs::exists(source, trouble))
    source = in(folder, config_name);
  return text_ends_of(read_file(source), source);
}

}  // namespace troupe
