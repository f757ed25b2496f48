#pragma once

#include <fmt/format.h>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/base/json.hpp"

namespace troupe::lab {

/// A request's JSON. Throws `error` (invalid_argument) for what is none, more
/// than `most_bytes`, or nested by more than 16 levels.
nlohmann::json parse_request(std::string_view text, std::size_t most_bytes);

/// Reads the fields of a JSON object; a field that is missing keeps its value.
/// Throws `error` (invalid_argument) with the field and what it may be. Fields
/// that nobody reads are refused by `require_known`.
class fields {
 public:
  /// `path` comes before the names of fields in errors.
  explicit fields(const nlohmann::json& object, std::string path = {});

  template <class T>
  void read(const std::string& name, T& value) {
    read_if(name, value, json_kind<T>(), [](const T&) { return true; });
  }
  template <class Number>
  void read(const std::string& name, Number& value, double least, double most) {
    read_if(name, value,
            fmt::format("a {}number in {:g}..{:g}",
                        std::integral<Number> ? "whole " : "", least, most),
            [=](Number given) { return given >= least && given <= most; });
  }
  /// An object; an empty one if it is missing.
  fields inner(const std::string& name);
  void require_known() const;

 private:
  template <class T, class Check>
  void read_if(const std::string& name, T& value, const std::string& wanted,
               const Check& is_legal) {
    known_.push_back(name);
    if (!object_.contains(name))
      return;
    const auto given = json_as<T>(object_[name]);
    if (!given || !is_legal(*given))
      refuse(name, wanted);
    value = *given;
  }
  [[noreturn]] void refuse(const std::string& name,
                           const std::string& wanted) const;

  const nlohmann::json& object_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace troupe::lab
