#include "troupe/cli/model/stored_model.hpp"

#include <fmt/ranges.h>

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
  return std::visit([](auto held) { return fmt::format("{}", held); }, value);
}

/// Refuses flags of models that C++ code defines.
void require_no_model_flags(const std::string& path,
                            const wanted_model& wanted) {
  for (const auto& name : wanted.given)
    if (name == "model" || wanted.flags.values.contains(name))
      fail(error_code::invalid_argument,
           "--{}: {} describes its model in {}; omit the flag", name,
           printable(path), config_json_text);
}

/// Finds out a model's settings, and refuses flags that contradict.
class model_finder {
 public:
  model_finder(std::string path, const wanted_model& wanted)
    : path_(printable(path)), wanted_(wanted), texts_(stored_texts(path)) {}

  stored_model find(parameter_list parameters) const {
    if (text("model") == from_folder)
      return of_config(std::move(parameters));
    const auto name = agreed("model", {}, given("model", wanted_.flags.name));
    const auto& entry = find_model(name);
    tensor_sizes sizes;
    for (const auto& [of, value] : parameters)
      sizes.emplace(of, value.sizes().vec());
    const auto told = entry.sizes_of ? entry.sizes_of(sizes) : told_sizes{};
    option_values values;
    for (const auto& option : entry.options)
      values.emplace(option.name, option_of(option, told.values));
    stored_model made;
    made.data.length = size("seq", wanted_.length, told.length);
    made.data.vocabulary =
      size("vocabulary", wanted_.vocabulary, told.vocabulary);
    made.model = entry.build(values, made.data);
    made.parameters = std::move(parameters);
    return made;
  }

 private:
  using optional_text = std::optional<std::string>;

  /// A model that was once read from a folder.
  stored_model of_config(parameter_list parameters) const {
    require_no_model_flags(path_, wanted_);
    stored_model made;
    made.data.length = size("seq", wanted_.length, 0);
    made.data.vocabulary = size("vocabulary", wanted_.vocabulary, 0);
    lora_options lora;
    if (const auto rank = text("lora-rank"))
      lora.rank = read<std::int64_t>("lora-rank", *rank);
    if (const auto alpha = text("lora-alpha"))
      lora.alpha = read<double>("lora-alpha", *alpha);
    lora.modules = text("lora-modules").value_or(lora.modules);
    const auto config = text(config_json_text).value_or("");
    made.model = model_of_config(config, path_,
                                 {.lora = lora, .length = made.data.length});
    made.text_ends = stored_text_ends(config);
    made.parameters = std::move(parameters);
    return made;
  }
  /// Older checkpoints have those of config.json alone.
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
  /// The flag's value, if it is given.
  optional_text given(const std::string& flag, const std::string& value) const {
    return std::ranges::count(wanted_.given, flag) > 0 ? optional_text{value}
                                                       : std::nullopt;
  }
  optional_text text(const std::string& name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? std::nullopt : optional_text{found->second};
  }
  /// As the tensors tell, else the texts, else the flags: whichever are there
  /// must not contradict.
  std::string agreed(const std::string& flag, const optional_text& by_tensors,
                     const optional_text& by_flag) const {
    const auto by_text = text(flag);
    if (by_tensors && by_text && *by_tensors != *by_text)
      refuse_checkpoint(
        path_,
        fmt::format("describes a model whose {} is {}, but its tensors have {}",
                    flag, printable(*by_text), *by_tensors));
    const auto& told = by_tensors ? by_tensors : by_text;
    if (!told && !by_flag)
      fail(
        error_code::invalid_argument,
        "{} does not record the model's --{}; give the value used in training",
        path_, flag);
    if (told && by_flag && *told != *by_flag)
      fail(error_code::invalid_argument,
           "--{} {}: {} is of a model with {}; omit the flag", flag, *by_flag,
           path_, printable(*told));
    return told ? *told : *by_flag;
  }
  /// A number within its limits, or a truth value.
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
                         const option_values& told) const {
    if (option.of_training)
      return option.usual;
    const auto& name = option.name;
    const auto by_tensors = told.find(name);
    const auto text = agreed(
      name,
      by_tensors == told.end() ? optional_text{} : text_of(by_tensors->second),
      given(name, text_of(wanted_.flags.values.at(name))));
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
  /// `by_flag` and `by_tensors`: 0 if they tell nothing.
  std::int64_t size(const char* name, std::int64_t by_flag,
                    std::int64_t by_tensors) const {
    const auto known = [](std::int64_t value) {
      return value > 0 ? optional_text{std::to_string(value)} : std::nullopt;
    };
    return read<std::int64_t>(
      name, agreed(name, known(by_tensors), known(by_flag)), 1, 1 << 24);
  }

  std::string path_;
  const wanted_model& wanted_;
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
  const checkpoint_folder folder(path);
  const auto steps = folder.steps();
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

namespace {

void require_no_contradiction(const std::string& path,
                              const wanted_model& wanted,
                              std::int64_t vocabulary) {
  require_no_model_flags(path, wanted);
  if (wanted.vocabulary > 0 && wanted.vocabulary != vocabulary)
    fail(error_code::invalid_argument,
         "--vocabulary {}: {} is of a model with {}; omit the flag",
         wanted.vocabulary, printable(path), vocabulary);
}

/// Its layers read the weights themselves.
stored_model open_folder(const std::string& path, const wanted_model& wanted) {
  const model_folder folder(path);
  const auto& o = folder.options();
  require_no_contradiction(path, wanted, o.vocabulary);
  stored_model made;
  const auto longest = o.length > 0
                         ? o.length
                         : o.rotary.steady_length().value_or(o.rotary.length);
  if (o.length > 0 && wanted.length > o.length)
    fail(error_code::invalid_argument, "--seq {}: {} has {} positions",
         wanted.length, printable(path), o.length);
  made.data.length = wanted.length > 0 ? wanted.length : longest;
  made.data.vocabulary = o.vocabulary;
  made.model =
    folder.build(wanted.dtype, made.data.seed, {.length = made.data.length});
  made.text_ends = text_ends_in(path);
  return made;
}

}  // namespace

stored_model open_model(const std::string& path, const wanted_model& wanted) {
  if (is_model_folder(path))
    return open_folder(path, wanted);
  return model_finder(path, wanted).find(stored_tensors(path));
}

}  // namespace troupe::cli
