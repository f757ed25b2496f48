#include "troupe/engine/models/model_folder.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr auto config_name = "config.json";

decoder_options options_of(const std::string& text, const std::string& origin) {
  model_config config(text, origin);
  return read_decoder(config);
}

/// What published files hold besides parameters: masks, frequencies.
bool is_buffer(const std::string& name) {
  for (const auto* end : {".attn.bias", ".attn.masked_bias", ".attention.bias",
                          ".attention.masked_bias", ".rotary_emb.inv_freq"})
    if (name.ends_with(end))
      return true;
  return false;
}

/// Shapes by name, without memory for them; a tied head is left out.
parameter_list shapes_of(const decoder_options& options) {
  const auto layers = decoder(options, nullptr, at::Device(at::kMeta));
  parameter_list all;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (auto& each : parameters_of(layers[i].name, *make_layer(layers, i)))
      if (!options.tied || each.first != options.names.head + ".weight")
        all.push_back(std::move(each));
  return all;
}

/// Throws `invalid_argument` if adapters are wanted, and no module is meant.
void require_adapted(const decoder_options& options) {
  const auto shapes = shapes_of(options);
  if (options.choices.lora.rank == 0
      || std::ranges::any_of(
        shapes, [](const auto& each) { return is_adapter(each.first); }))
    return;
  std::set<std::string> names;
  for (const auto& [name, value] : shapes)
    if (value.dim() == 2 && name.starts_with(options.names.blocks)) {
      const auto module = name.substr(0, name.rfind('.'));
      names.insert(module.substr(module.rfind('.') + 1));
    }
  fail(error_code::invalid_argument,
       "--lora-modules {}: matches no linear module; they are {}",
       printable(options.choices.lora.modules), fmt::join(names, ", "));
}

built_model built(decoder_options options, const decoder_choices& choices,
                  parameter_filler fill, at::ScalarType dtype) {
  options.choices = choices;
  require_adapted(options);
  built_model made;
  made.layers = decoder(options, std::move(fill), dtype);
  made.blocks = {1, 1 + static_cast<std::int32_t>(options.layers)};
  for (const auto& [name, value] : shapes_of(options))
    made.parameters += static_cast<double>(value.numel());
  return made;
}

}  // namespace

bool is_model_folder(const std::string& path) {
  std::error_code trouble;
  return fs::is_regular_file(fs::path(path) / config_name, trouble);
}

model_folder::model_folder(std::string path, bool from_scratch)
  : path_(std::move(path)) {
  const auto config = (fs::path(path_) / config_name).string();
  config_ = read_file(config);
  options_ = options_of(config_, config);
  if (from_scratch)
    return;
  weights_ = std::make_shared<const stored_weights>(path_);
  // Published files of GPT-2 name the model's inside alone.
  const auto tokens = options_.names.tokens + ".weight";
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
  const auto& origin = weights_->origin();
  for (const auto& [name, value] : shapes_of(options_)) {
    const auto* entry = weights_->find(stored_name(name));
    if (!entry)
      refuse_checkpoint(origin, fmt::format("has no {}", stored_name(name)));
    if (entry->shape != value.sizes().vec())
      refuse_checkpoint(
        origin, fmt::format("has {} of shape [{}], and {} describes one of "
                            "[{}]",
                            entry->name, fmt::join(entry->shape, ", "),
                            config_name, fmt::join(value.sizes(), ", ")));
    if (!at::isFloatingType(entry->dtype))
      refuse_checkpoint(origin,
                        fmt::format("has {} of {}; a parameter is of "
                                    "floating-point numbers",
                                    entry->name, at::toString(entry->dtype)));
  }
  if (const auto extra = unknown_tensor(); !extra.empty())
    refuse_checkpoint(origin,
                      fmt::format("has {}, which the model of {} does not have",
                                  printable(extra), config_name));
}

std::string model_folder::unknown_tensor() const {
  std::set<std::string> known;
  for (const auto& [name, value] : shapes_of(options_))
    known.insert(stored_name(name));
  if (options_.tied)
    known.insert(options_.names.head + ".weight");
  for (const auto& entry : weights_->entries())
    if (!known.contains(entry.name) && !is_buffer(entry.name))
      return entry.name;
  return {};
}

built_model model_folder::build(at::ScalarType dtype, std::uint64_t seed,
                                const decoder_choices& choices) const {
  auto fill = fresh_parameters(options_, seed);
  if (weights_)
    fill = [self = *this, dtype](const std::string& name,
                                 at::Tensor& parameter) {
      const auto& o = self.options_;
      const bool is_tied = o.tied && name == o.names.head + ".weight";
      parameter.set_data(
        self.weights_
          ->read(self.stored_name(is_tied ? o.names.tokens + ".weight" : name))
          .to(dtype));
    };
  auto made = built(options_, choices, std::move(fill), dtype);
  made.folder = std::make_shared<const model_folder>(*this);
  return made;
}

built_model model_of_config(const std::string& config,
                            const std::string& origin,
                            const decoder_choices& choices) {
  return built(options_of(config, origin), choices, nullptr, at::kFloat);
}

std::vector<std::string> model_folder::files() const {
  auto all = weights_ ? weights_->paths() : std::vector<std::string>{};
  all.insert(all.begin(), (fs::path(path_) / config_name).string());
  return all;
}

namespace {

constexpr auto single_name = "model.safetensors";
constexpr auto index_name = "model.safetensors.index.json";

/// The part of each tensor, by an index.
std::map<std::string, std::string> parts_of(const std::string& index) {
  const auto text = read_file(index);
  const auto fields = nlohmann::json::parse(text, nullptr, false);
  const auto map =
    fields.is_object() ? fields.find("weight_map") : fields.end();
  if (map == fields.end() || !map->is_object() || map->empty())
    refuse_checkpoint(index, "has no weight_map");
  std::map<std::string, std::string> parts;
  for (const auto& [name, part] : map->items()) {
    const auto file = part.is_string() ? part.get<std::string>() : "";
    if (file.empty() || file.find('/') != file.npos || file.front() == '.')
      refuse_checkpoint(index, fmt::format("names '{}' as the part of {}",
                                           printable(file), printable(name)));
    parts.emplace(name, file);
  }
  return parts;
}

}  // namespace

stored_weights::stored_weights(const std::string& folder) : origin_(folder) {
  std::error_code trouble;
  const auto single = (fs::path(folder) / single_name).string();
  const auto index = (fs::path(folder) / index_name).string();
  if (fs::exists(single, trouble)) {
    origin_ = single;
    add(single);
    return;
  }
  if (!fs::exists(index, trouble))
    fail(error_code::io, "{}: has neither {} nor {}", printable(folder),
         single_name, index_name);
  const auto parts = parts_of(index);
  std::set<std::string> names;
  for (const auto& [name, part] : parts)
    names.insert(part);
  for (const auto& part : names)
    add((fs::path(folder) / part).string());
  for (const auto& [name, part] : parts) {
    const auto found = places_.find(name);
    if (found == places_.end()
        || fs::path(paths_[found->second.file]).filename() != part)
      refuse_checkpoint(index, fmt::format("says that {} is in {}, which it is "
                                           "not",
                                           printable(name), part));
  }
}

void stored_weights::add(const std::string& path) {
  files_.push_back(std::make_unique<safetensors_file>(path));
  paths_.push_back(path);
  for (const auto& entry : files_.back()->entries())
    if (const auto [other, is_new] =
          places_.emplace(entry.name, place{files_.size() - 1, &entry});
        !is_new)
      refuse_checkpoint(path,
                        fmt::format("has {}, as {} does", printable(entry.name),
                                    paths_[other->second.file]));
}

std::vector<safetensors_entry> stored_weights::entries() const {
  std::vector<safetensors_entry> all;
  for (const auto& file : files_)
    all.insert(all.end(), file->entries().begin(), file->entries().end());
  return all;
}

const safetensors_entry* stored_weights::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.entry;
}

at::Tensor stored_weights::read(const std::string& name) const {
  const auto& from = places_.at(name);
  return files_[from.file]->read(*from.entry);
}

}  // namespace troupe
