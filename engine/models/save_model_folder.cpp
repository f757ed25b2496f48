// Saving of a model_folder, and new folders.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <system_error>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/models/fresh_folder.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_on(const fs::path& path, const char* doing,
                          const std::error_code& trouble) {
  fail(error_code::io, "{}: can't be {}: {}", printable(path.string()), doing,
       trouble.message());
}

std::string without_slash(const std::string& path) {
  const fs::path given(path);
  return (given.has_filename() ? given : given.parent_path()).string();
}

/// What a copy does not take over as it is.
bool is_replaced(const std::string& name) {
  return name == "config.json" || name.ends_with(".safetensors")
         || name.ends_with(".safetensors.index.json") || name.ends_with(".bin")
         || name.ends_with(".bin.index.json") || name.ends_with(".pt")
         || name.ends_with(".pth") || name.ends_with(".msgpack")
         || name.ends_with(".h5") || name.ends_with(".gguf");
}

/// Files of a tokenizer, of generation settings, licences.
void copy_others(const fs::path& from, const fs::path& to) {
  std::error_code trouble;
  for (fs::directory_iterator at(from, trouble), end; !trouble && at != end;
       at.increment(trouble)) {
    const auto name = at->path().filename().string();
    if (name.starts_with('.') || is_replaced(name)
        || !at->is_regular_file(trouble))
      continue;
    fs::copy_file(at->path(), to / name, trouble);
    if (trouble)
      fail_on(to / name, "written", trouble);
  }
  if (trouble)
    fail_on(from, "read", trouble);
}

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

/// With the dtype of what is saved, in the field that the file has for it.
std::string config_with(const std::string& config, at::ScalarType dtype) {
  auto fields = nlohmann::ordered_json::parse(config);
  const auto* name = dtype == at::kBFloat16 ? "bfloat16"
                     : dtype == at::kHalf   ? "float16"
                                            : "float32";
  const auto* field = fields.contains("torch_dtype") ? "torch_dtype" : "dtype";
  if (fields.contains(field) && fields[field] == name)
    return config;
  fields[field] = name;
  return fields.dump(2) + "\n";
}

}  // namespace

void require_free(const std::string& path) {
  std::error_code trouble;
  const auto target = without_slash(path);
  if (fs::exists(target, trouble)
      && !(fs::is_directory(target, trouble) && fs::is_empty(target, trouble)))
    fail(error_code::io,
         "{}: exists already; move it away, or give another folder",
         printable(path));
  const fresh_folder probe(path);
}

fresh_folder::fresh_folder(const std::string& path)
  : path_(without_slash(path)) {
  std::random_device random;
  temporary_ = fmt::format("{}.troupe-{:08x}", path_, random());
  std::error_code trouble;
  if (const fs::path target(path_); target.has_parent_path())
    fs::create_directories(target.parent_path(), trouble);
  fs::create_directory(temporary_, trouble);
  if (trouble)
    fail_on(temporary_, "created", trouble);
}

fresh_folder::~fresh_folder() {
  std::error_code ignored;
  if (!temporary_.empty())
    fs::remove_all(temporary_, ignored);
}

std::string fresh_folder::file(const std::string& name) const {
  return (fs::path(temporary_) / name).string();
}

void fresh_folder::keep() {
  std::error_code trouble;
  fs::rename(temporary_, path_, trouble);
  if (trouble)
    fail_on(path_, "put in place", trouble);
  temporary_.clear();
}

parameter_list model_folder::stored(const parameter_list& parameters,
                                    std::optional<at::ScalarType> dtype) const {
  parameter_list tensors;
  const auto add = [&](const std::string& name, const at::Tensor& value) {
    const auto* entry = weights_ ? weights_->find(name) : nullptr;
    const auto type = dtype   ? *dtype
                      : entry ? entry->dtype
                              : value.scalar_type();
    tensors.emplace_back(name, value.to(type));
  };
  const auto tokens = options_.names.tokens + ".weight",
             head = options_.names.head + ".weight";
  for (const auto& [name, value] : parameters) {
    if (options_.tied && name == head)
      continue;
    add(stored_name(name), value);
    if (options_.tied && name == tokens && weights_ && weights_->find(head))
      add(head, value);  // some files hold it twice
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
  require_free(path);
  const auto tensors =
    stored(merged(parameters, lora, options_.transposed), dtype);
  fresh_folder made(path);
  copy_others(path_, made.file(""));
  write_weights(made.file(""), tensors, most_bytes);
  const auto type = dtype.value_or(
    tensors.empty() ? at::kFloat : tensors.front().second.scalar_type());
  write_file_atomically(made.file("config.json"), config_with(config_, type));
  made.keep();
}

}  // namespace troupe
