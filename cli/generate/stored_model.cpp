#include "troupe/cli/generate/stored_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe::cli {

namespace {

constexpr std::string_view metadata_prefix = "troupe.";
/// In place of a model's name, and the text that then describes it.
constexpr auto from_folder = "transformers", config_text = "config.json";

/// Finds out a model's settings, and refuses flags that contradict.
class model_finder {
 public:
  model_finder(std::string path, const wanted_model& wanted)
    : path_(printable(path)), wanted_(wanted), texts_(stored_texts(path)) {}

  stored_model find(parameter_list parameters) const {
    if (text("model") == from_folder)
      return of_config(std::move(parameters));
    const auto& entry = find_model(name());
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
  /// A model that was once read from a folder.
  stored_model of_config(parameter_list parameters) const {
    stored_model made;
    made.data.length = size("seq", wanted_.length, 0);
    made.data.vocabulary = size("vocabulary", wanted_.vocabulary, 0);
    lora_options lora;
    lora.rank = number<std::int64_t>("lora-rank").value_or(0);
    lora.alpha = number<double>("lora-alpha").value_or(lora.alpha);
    lora.modules = text("lora-modules").value_or(lora.modules);
    const auto config = text(config_text).value_or("");
    made.model = model_of_config(config, path_,
                                 {.lora = lora, .length = made.data.length});
    made.text_ends = text_ends_of(config, path_);
    made.parameters = std::move(parameters);
    return made;
  }
  bool is_given(const std::string& flag) const {
    return std::ranges::count(wanted_.given, flag) > 0;
  }
  /// Whichever is there, if they agree.
  template <class Value>
  Value agreed(const std::string& flag, const std::optional<Value>& told,
               const std::optional<Value>& given) const {
    if (!told && !given)
      fail(
        error_code::invalid_argument,
        "{} does not record the model's --{}; give the value used in training",
        path_, flag);
    if (told && given && *told != *given)
      fail(error_code::invalid_argument,
           "--{} {}: {} is of a model with {}; omit the flag", flag, *given,
           path_, *told);
    return told ? *told : *given;
  }
  std::optional<std::string> text(const std::string& name) const {
    const auto found = texts_.find(name);
    return found == texts_.end() ? std::nullopt : std::optional{found->second};
  }
  template <class Value>
  static std::optional<Value> read(const std::string& text) {
    if constexpr (!std::is_same_v<Value, bool>)
      return parse_number<Value>(text);
    else
      return text == "true"    ? std::optional{true}
             : text == "false" ? std::optional{false}
                               : std::nullopt;
  }
  /// A number, or truth value, of the model's texts.
  template <class Number>
  std::optional<Number> number(const std::string& name) const {
    const auto found = text(name);
    if (!found)
      return std::nullopt;
    const auto value = read<Number>(*found);
    if (!value)
      refuse_checkpoint(path_, fmt::format("describes a model whose {} is '{}'",
                                           printable(name), printable(*found)));
    return value;
  }

  /// As the tensors tell, else the texts, which must not contradict.
  template <class Number>
  std::optional<Number> known_of(const std::string& name,
                                 std::optional<Number> by_tensors) const {
    const auto by_text = number<Number>(name);
    if (by_tensors && by_text && *by_tensors != *by_text)
      refuse_checkpoint(
        path_,
        fmt::format("describes a model whose {} is {}, but its tensors have {}",
                    name, *by_text, *by_tensors));
    return by_tensors ? by_tensors : by_text;
  }

  std::string name() const {
    return agreed(
      "model", text("model"),
      is_given("model") ? std::optional{wanted_.flags.name} : std::nullopt);
  }
  option_value option_of(const model_option& option,
                         const option_values& told) const {
    return std::visit(
      [&]<class Number>(Number) -> option_value {
        const auto by_tensors = told.find(option.name);
        const auto known = known_of(
          option.name, by_tensors == told.end()
                         ? std::nullopt
                         : std::optional{std::get<Number>(by_tensors->second)});
        return in_range(
          option, agreed(option.name, known,
                         is_given(option.name) ? std::optional{std::get<Number>(
                           wanted_.flags.values.at(option.name))}
                                               : std::nullopt));
      },
      option.usual);
  }
  template <class Number>
  Number in_range(const model_option& option, Number value) const {
    if (std::is_same_v<Number, bool>)
      return value;
    if (!(value >= std::get<Number>(option.least)
          && value <= std::get<Number>(option.most)))
      refuse_checkpoint(path_, fmt::format("describes a model whose {} is {}",
                                           option.name, value));
    return value;
  }
  std::int64_t size(const char* name, std::int64_t given,
                    std::int64_t by_tensors) const {
    const auto known =
      known_of(name, by_tensors > 0 ? std::optional{by_tensors} : std::nullopt);
    constexpr auto most = std::int64_t{1} << 24;
    const auto value =
      agreed(name, known, given > 0 ? std::optional{given} : std::nullopt);
    if (value < 1 || value > most)
      refuse_checkpoint(
        path_, fmt::format("describes a model whose {} is {}", name, value));
    return value;
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
  std::map<std::string, std::string> texts{
    {"model", model.folder ? from_folder : flags.name},
    {"seq", std::to_string(data.length)},
    {"vocabulary", std::to_string(data.vocabulary)}};
  if (model.folder) {
    texts.emplace(config_text, model.folder->config());
    if (flags.choices.lora.rank > 0) {
      texts.emplace("lora-rank", std::to_string(flags.choices.lora.rank));
      texts.emplace("lora-alpha", fmt::format("{}", flags.choices.lora.alpha));
      texts.emplace("lora-modules", flags.choices.lora.modules);
    }
    return texts;
  }
  for (const auto& option : find_model(flags.name).options)
    std::visit(
      [&](auto value) { texts.emplace(option.name, fmt::format("{}", value)); },
      flags.values.at(option.name));
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

/// Flags of models that C++ code defines, and a vocabulary that it hasn't.
void require_no_contradiction(const std::string& path,
                              const wanted_model& wanted,
                              std::int64_t vocabulary) {
  for (const auto& name : wanted.given)
    if (name == "model" || wanted.flags.values.contains(name))
      fail(error_code::invalid_argument,
           "--{}: {} describes its model in {}; omit the flag", name,
           printable(path), config_text);
  if (wanted.vocabulary > 0 && wanted.vocabulary != vocabulary)
    fail(error_code::invalid_argument,
         "--vocabulary {}: {} is of a model with {}; omit the flag",
         wanted.vocabulary, printable(path), vocabulary);
}

/// Its layers read the weights themselves.
stored_model open_folder(const std::string& path, const wanted_model& wanted) {
  const model_folder folder(path, false);
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
