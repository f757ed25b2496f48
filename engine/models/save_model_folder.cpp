// Saving of a model_folder.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/fresh_folder.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/models/companion_files.hpp"
#include "troupe/engine/models/decoders/decoder.hpp"
#include "troupe/engine/models/decoders/lora.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

/// Which tensors go into which file: in order, as many as fit.
std::vector<parameter_list> parts_of(const parameter_list& tensors,
                                     std::int64_t most_bytes) {
  std::vector<parameter_list> parts(1);
  std::int64_t bytes = 0;
  for (const auto& each : tensors) {
    const auto more = static_cast<std::int64_t>(each.second.nbytes());
    if (!parts.back().empty() && bytes + more > most_bytes) {
      parts.emplace_back();
      bytes = 0;
    }
    parts.back().push_back(each);
    bytes += more;
  }
  return parts;
}

void write_weights(const fs::path& folder, const parameter_list& tensors,
                   std::int64_t most_bytes) {
  const auto parts = parts_of(tensors, most_bytes);
  const std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (parts.size() == 1) {
    write_safetensors((folder / "model.safetensors").string(), tensors,
                      metadata);
    return;
  }
  nlohmann::json index;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto name =
      fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, parts.size());
    write_safetensors((folder / name).string(), parts[i], metadata);
    for (const auto& [tensor, value] : parts[i]) {
      index["weight_map"][tensor] = name;
      bytes += value.nbytes();
    }
  }
  index["metadata"]["total_size"] = bytes;
  write_file_atomically((folder / "model.safetensors.index.json").string(),
                        index.dump(2) + "\n");
}

/// With the dtype of what is saved, in each field that the file has for it:
/// newer ones of transformers read `dtype`, older ones `torch_dtype`.
std::string config_with(const std::string& config, at::ScalarType dtype) {
  const auto before = nlohmann::ordered_json::parse(config);
  auto fields = before;
  const auto* name = dtype == at::kBFloat16 ? "bfloat16"
                     : dtype == at::kHalf   ? "float16"
                                            : "float32";
  const bool has_older = fields.contains("torch_dtype");
  if (has_older)
    fields["torch_dtype"] = name;
  if (fields.contains("dtype") || !has_older)
    fields["dtype"] = name;
  return fields == before ? config : fields.dump(2) + "\n";
}

}  // namespace

parameter_list model_folder::stored(const parameter_list& parameters,
                                    const lora_options& lora,
                                    std::optional<at::ScalarType> dtype) const {
  parameter_list tensors;
  // `own`: the type of the parameter before its adapter was merged.
  const auto add = [&](const std::string& name, const at::Tensor& value,
                       at::ScalarType own) {
    const auto* entry = weights_ ? weights_->find(name) : nullptr;
    const auto type = dtype ? *dtype : entry ? entry->dtype : own;
    if (type == at::kHalf && overflows(value, type))
      fail(error_code::invalid_argument,
           "{} has values beyond the range of fp16; save it in another dtype",
           name);
    tensors.emplace_back(name, value.to(type));
  };
  const auto tokens = options_->names.tokens + ".weight",
             head = options_->names.head + ".weight";
  const auto transposed =
    options_->transposed ? options_->names.blocks + "." : std::string();
  const std::map<std::string, at::Tensor> all(parameters.begin(),
                                              parameters.end());
  for (const auto& [name, value] : parameters) {
    if (is_adapter(name) || (options_->tied && name == head))
      continue;
    const auto own = value.scalar_type();
    add(stored_name(name), merged(name, all, lora, transposed), own);
    if (options_->tied && name == tokens && weights_ && weights_->find(head))
      add(head, value, own);  // some files hold it twice
  }
  std::set<std::string> names;
  for (const auto& [name, value] : tensors)
    names.insert(name);
  const auto entries =
    weights_ ? weights_->entries() : std::vector<safetensors_entry>{};
  for (const auto& entry : entries)
    if (!names.contains(entry.name))  // masks, in some files
      tensors.emplace_back(entry.name, weights_->read(entry.name));
  return tensors;
}

void model_folder::save(const std::string& path,
                        const parameter_list& parameters,
                        const lora_options& lora,
                        std::optional<at::ScalarType> dtype,
                        std::int64_t most_bytes) const {
  const auto tensors = stored(parameters, lora, dtype);
  fresh_folder target(path);
  write_weights(target.file(""), tensors, most_bytes);
  // Tensors that were read keep their types, of which there may be several.
  const auto type = dtype || weights_ || tensors.empty()
                      ? dtype
                      : std::optional(tensors.front().second.scalar_type());
  write_file_atomically(target.file("config.json"),
                        type ? config_with(config_, *type) : config_);
  // The weights are worth more than what lies beside them.
  std::string problem;
  try {
    copy_companions(path_, target.file(""));
  } catch (const error& reason) {
    problem = reason.what();
  }
  target.keep();
  if (!problem.empty())
    fail(error_code::io, "{}: holds the weights, but not all other files: {}",
         printable(path), problem);
}

void model_folder::save_adapter(const std::string& path,
                                const parameter_list& parameters,
                                const lora_options& lora) const {
  troupe::save_adapter(path, parameters, lora, options_->transposed, path_);
}

}  // namespace troupe
