#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "troupe/base/json.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

/// The object that a text of JSON is. Throws `invalid_checkpoint`, naming
/// `origin`, also for one nested so deeply that no stack would hold it.
nlohmann::json parsed_object(const std::string& text,
                             const std::string& origin);

/// A model's config.json, as Hugging Face's transformers writes it. Each field
/// that is read is noted, so that `finish` can refuse those that nobody read:
/// they may change what the model computes. A field that is null counts as
/// missing. Errors are `invalid_checkpoint`, with the file and the field.
class model_config {
 public:
  /// `origin`: the file's name.
  model_config(const std::string& text, std::string origin);

  bool has(const std::string& name) const;
  bool is_empty() const { return fields_.empty(); }
  /// Whether the field is there, also as null.
  bool lists(const std::string& name) const { return fields_.contains(name); }
  std::int64_t whole(const std::string& name,
                     std::optional<std::int64_t> usual = {},
                     std::int64_t least = 1,
                     std::int64_t most = std::int64_t{1} << 31);
  /// A number, truth value, text, or list of such.
  template <class T>
  T read(const std::string& name) {
    const auto& found = get(name);
    if (auto value = json_as<T>(found))
      return std::move(*value);
    refuse(name, fmt::format("is {}, not {}", printable(found.dump()),
                             json_kind<T>()));
  }
  /// `usual`: if it is missing.
  template <class T>
  T read(const std::string& name, std::optional<T> usual) {
    return usual && !find(name) ? *std::move(usual) : read<T>(name);
  }
  double number(const std::string& name, std::optional<double> usual = {}) {
    return read(name, usual);
  }
  bool flag(const std::string& name, bool usual) {
    return read<bool>(name, usual);
  }
  std::string text(const std::string& name,
                   std::optional<std::string> usual = {}) {
    return read(name, std::move(usual));
  }
  std::optional<double> optional_number(const std::string& name) {
    return has(name) ? std::optional{number(name)} : (find(name), std::nullopt);
  }
  /// An object within; its fields are noted apart. Call its `finish`, too.
  model_config inner(const std::string& name);

  /// The field, if it is there, has one of these values: others are not
  /// supported.
  void require(const std::string& name,
               std::initializer_list<nlohmann::json> values);
  /// Fields that change nothing in what is computed.
  void ignore(std::initializer_list<const char*> names);

  /// Throws for a field that was neither read nor ignored.
  void finish() const;
  [[noreturn]] void refuse(const std::string& name,
                           const std::string& why) const;

 private:
  model_config(nlohmann::json fields, std::string origin, std::string path);
  const nlohmann::json* find(const std::string& name);
  const nlohmann::json& get(const std::string& name);

  nlohmann::json fields_;
  std::string origin_;
  std::string path_;  // of an inner object, with a dot behind
  std::set<std::string> noted_;
};

}  // namespace troupe
