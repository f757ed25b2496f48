#include "troupe/cli/model/stored_model.hpp"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <sstream>
#include <type_traits>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe::cli {

namespace {

constexpr std::string_view metadata_prefix = "troupe.";

std::string text_of(const option_value& value) {
  return std::visit([](auto content) { return fmt::format("{}", content); },
                    value);
}

/// Refuses the flags of models that are defined in C++.
void require_no_model_flags(const std::string& path,
                            const model_request& request) {
  for (const auto& name : request.explicit_flags)
    if (name == "model" || request.flags.values.contains(name))
      fail(error_code::invalid_argument,
           "--{}: {} describes its model in {}; omit the flag", name,
           printable(path), config_json_text);
}

/// Determines a model's settings, and refuses flags that contradict them.
class model_finder {
 public:
  model_finder(std::string path, const model_request& request)
    : path_(printable(path)), request_(request), texts_(stored_texts(path)) {}

  stored_model find(parameter_list parameters) const {
    if (text("model") == from_folder)
      return of_config(std::move(parameters));
    const auto name =
      agreed("model", {}, if_explicit("model", request_.flags.name));
    const auto& entry = find_model(name);
    tensor_sizes sizes;
    for (const auto& [of, value] : parameters)
      sizes.emplace(of, value.sizes().vec());
    const auto sizes_by_tensors =
      entry.sizes_of ? entry.sizes_of(sizes) : told_sizes{};
    option_values values;
    for (const auto& option : entry.options)
      values.emplace(option.name, option_of(option, sizes_by_tensors.values));
    stored_model result;
    result.data.length = size("seq", request_.length, sizes_by_tensors.length);
    result.data.vocabulary =
      size("vocabulary", request_.vocabulary, sizes_by_tensors.vocabulary);
    result.model = entry.build(values, result.data);
    result.parameters = std::move(parameters);
    return result;
  }

 private:
  using optional_text = std::optional<std::string>;

  /// The model of a checkpoint whose model came from a folder.
  stored_model of_config(parameter_list parameters) const {
    require_no_model_flags(path_, request_);
    stored_model result;
    result.data.length = size("seq", request_.length, 0);
    result.data.vocabulary = size("vocabulary", request_.vocabulary, 0);
    lora_options lora;
    if (const auto rank = text("lora-rank"))
      lora.rank = read<std::int64_t>("lora-rank", *rank);
    if (const auto alpha = text("lora-alpha"))
      lora.alpha = read<double>("lora-alpha", *alpha);
    lora.modules = text("lora-modules").value_or(lora.modules);
    const auto config = text(config_json_text).value_or("");
    result.model = model_of_config(
      config, path_, {.lora = lora, .length = result.data.length});
    result.text_ends = stored_text_ends(config);
    result.parameters = std::move(parameters);
    return result;
  }
  /// Older checkpoints hold only the end tokens of config.json.
  std::vector<std::int64_t> stored_text_ends(const std::string& config) const {
    const auto ids = text(ends_text);
    if (!ids)
      return text_ends_of(config, path_);
    std::istringstream words(*ids);
    std::vector<std::int64_t> ends;
    for (std::string word; words >> word;)
      ends.push_back(read<std::int64_t>(ends_text, word));
    return ends;
  }
  /// The flag's value if the command line sets it.
  optional_text if_explicit(const std::string& flag,
                            const std::string& value) const {
    return std::ranges::count(request_.explicit_flags, flag) > 0
             ? optional_text{value}
             : std::nullopt;
  }
  optional_text text(const std::string& name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? std::nullopt : optional_text{found->second};
  }
  /// The value by the tensors, else by the texts, else by the flags. Those of
  /// them that have one must agree.
  std::string agreed(const std::string& flag, const optional_text& by_tensors,
                     const optional_text& by_flag) const {
    const auto by_text = text(flag);
    if (by_tensors && by_text && *by_tensors != *by_text)
      refuse_checkpoint(
        path_,
        fmt::format("describes a model whose {} is {}, but its tensors have {}",
                    flag, printable(*by_text), *by_tensors));
    const auto& stored = by_tensors ? by_tensors : by_text;
    if (!stored && !by_flag)
      fail(
        error_code::invalid_argument,
        "{} does not record the model's --{}; give the value used in training",
        path_, flag);
    if (stored && by_flag && *stored != *by_flag)
      fail(error_code::invalid_argument,
           "--{} {}: {} is of a model with {}; omit the flag", flag, *by_flag,
           path_, printable(*stored));
    return stored ? *stored : *by_flag;
  }
  /// A number within its limits, or a boolean.
  template <class Value>
  Value read(const std::string& name, const std::string& text,
             Value least = std::numeric_limits<Value>::lowest(),
             Value most = std::numeric_limits<Value>::max()) const {
    std::optional<Value> value;
    if constexpr (std::is_same_v<Value, bool>) {
      if (text == "true" || text == "false")
        return text == "true";
    } else {
      value = parse_number<Value>(text);
    }
    if (!value || !(*value >= least && *value <= most))
      refuse_checkpoint(path_, fmt::format("describes a model whose {} is '{}'",
                                           printable(name), printable(text)));
    return *value;
  }
  option_value option_of(const model_option& option,
                         const option_values& values_by_tensors) const {
    if (option.of_training)
      return option.usual;
    const auto& name = option.name;
    const auto by_tensors = values_by_tensors.find(name);
    const auto text = agreed(
      name,
      by_tensors == values_by_tensors.end() ? optional_text{}
                                            : text_of(by_tensors->second),
      if_explicit(name, text_of(request_.flags.values.at(name))));
    return std::visit(
      [&]<class Value>(Value) -> option_value {
        if constexpr (std::is_same_v<Value, bool>)
          return read<bool>(name, text);
        else
          return read<Value>(name, text, std::get<Value>(option.least),
                             std::get<Value>(option.most));
      },
      option.usual);
  }
  /// `by_flag` and `by_tensors`: 0 if unknown.
  std::int64_t size(const char* name, std::int64_t by_flag,
                    std::int64_t by_tensors) const {
    const auto as_text = [](std::int64_t value) {
      return value > 0 ? optional_text{std::to_string(value)} : std::nullopt;
    };
    return read<std::int64_t>(
      name, agreed(name, as_text(by_tensors), as_text(by_flag)), 1, 1 << 24);
  }

  std::string path_;
  const model_request& request_;
  std::map<std::string, std::string> texts_;
};

}  // namespace

bool is_tensor_file(const std::string& path) {
  if (path.ends_with(".safetensors"))
    return true;
  std::error_code trouble;
  const auto type = std::filesystem::status(path, trouble).type();
  if (type == std::filesystem::file_type::none)
    fail(error_code::io, "{}: can't be read: {}", printable(path),
         trouble.message());
  return type == std::filesystem::file_type::regular;
}

std::string checkpoint_in(const std::string& path) {
  if (is_checkpoint(path))
    return path;
  std::error_code trouble;
  if (!std::filesystem::exists(path, trouble) && !trouble)
    fail(error_code::io,
         "{}: there is no such folder; give a checkpoint, or a folder that "
         "train --checkpoints wrote",
         printable(path));
  const checkpoint_folder folder(path);
  const auto steps = folder.steps();
  if (steps.empty()
      && std::filesystem::exists(path + "/adapter_config.json", trouble))
    fail(
      error_code::invalid_checkpoint,
      "{}: is an adapter, which troupe does not read back; give a model that "
      "the run saved with --save-model, or one of its --checkpoints",
      printable(path));
  if (steps.empty())
    fail(
      error_code::invalid_checkpoint,
      "{}: is neither a checkpoint nor a folder of checkpoints: there is no {}",
      printable(path), manifest_name);
  return folder.path_of(steps.front());
}

parameter_list stored_tensors(const std::string& path, bool optimizer) {
  if (is_tensor_file(path))
    return read_safetensors(path);
  const stored_checkpoint found(checkpoint_in(path));
  found.verify();
  parameter_list tensors;
  for (const auto& name : found.names())
    if (optimizer || !is_state_name(name))
      tensors.emplace_back(name, found.read(name));
  return tensors;
}

std::map<std::string, std::string> model_texts(const model_flags& flags,
                                               const text_batch_options& data,
                                               const built_model& model) {
  if (model.folder)
    return texts_of_folder(*model.folder, flags.choices.lora, data);
  std::map<std::string, std::string> texts{
    {"model", flags.name},
    {"seq", std::to_string(data.length)},
    {"vocabulary", std::to_string(data.vocabulary)}};
  for (const auto& option : find_model(flags.name).options)
    if (!option.of_training)
      texts.emplace(option.name, text_of(flags.values.at(option.name)));
  return texts;
}

std::map<std::string, std::string> stored_texts(const std::string& path) {
  if (!is_tensor_file(path))
    return stored_checkpoint(checkpoint_in(path)).about().model;
  const safetensors_file file(path);
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : file.metadata())
    if (name.starts_with(metadata_prefix))
      texts.emplace(name.substr(metadata_prefix.size()), value);
  return texts;
}

std::map<std::string, std::string> model_metadata(
  const std::map<std::string, std::string>& model) {
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  for (const auto& [name, value] : model)
    metadata.emplace(fmt::format("{}{}", metadata_prefix, name), value);
  return metadata;
}

void warn_of_positions(const model_folder& folder, std::int64_t length) {
  const auto& rotary = folder.options().rotary;
  if (rotary.length > 0 && length > rotary.length && !rotary.steady_length())
    spdlog::warn(
      "--seq {}: the model in {} is made for {} positions "
      "(max_position_embeddings); it may predict poorly beyond them",
      length, printable(folder.path()), rotary.length);
}

namespace {

void require_no_contradiction(const std::string& path,
                              const model_request& request,
                              std::int64_t vocabulary) {
  require_no_model_flags(path, request);
  if (request.vocabulary > 0 && request.vocabulary != vocabulary)
    fail(error_code::invalid_argument,
         "--vocabulary {}: {} is of a model with {}; omit the flag",
         request.vocabulary, printable(path), vocabulary);
}

/// The layers read their weights from the folder themselves.
stored_model open_folder(const std::string& path,
                         const model_request& request) {
  const model_folder folder(path);
  const auto& o = folder.options();
  require_no_contradiction(path, request, o.vocabulary);
  stored_model result;
  const auto longest = o.length > 0
                         ? o.length
                         : o.rotary.steady_length().value_or(o.rotary.length);
  if (o.length > 0 && request.length > o.length)
    fail(error_code::invalid_argument, "--seq {}: {} has {} positions",
         request.length, printable(path), o.length);
  result.data.length = request.length > 0 ? request.length : longest;
  warn_of_positions(folder, result.data.length);
  result.data.vocabulary = o.vocabulary;
  result.model = folder.build(request.dtype, result.data.seed,
                              {.length = result.data.length});
  result.text_ends = text_ends_in(path);
  return result;
}

}  // namespace

stored_model open_model(const std::string& path, const model_request& request) {
  if (is_model_folder(path))
    return open_folder(path, request);
  return model_finder(path, request).find(stored_tensors(path));
}

}  // namespace troupe::cli
