#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

/// Reads the fields of a JSON object that anybody may have written; a field
/// that is missing keeps its value. Throws `error` with the field and what it
/// may be. Fields that nobody reads are refused by `require_known`. The object
/// outlives it.
template <class Json = nlohmann::json>
class json_object {
 public:
  /// `owner` and `prefix`, before the names of fields, are for errors.
  json_object(const Json& object, std::string owner, std::string prefix = {},
              error_code code = error_code::invalid_argument)
    : object_(object),
      owner_(std::move(owner)),
      prefix_(std::move(prefix)),
      code_(code) {
    if (!object.is_object())
      fail(code_, "{} must be a JSON object", owner_);
  }

  template <class T>
  void read(const std::string& name, T& value) {
    read_if(name, value, json_kind<T>(), [](const T&) { return true; });
  }
  template <class Number>
  void read(const std::string& name, Number& value, double least, double most) {
    read_if(name, value,
            fmt::format("a {}number in {:g}..{:g}",
                        std::integral<Number> ? "whole " : "", least, most),
            [=](Number read_value) {
              const auto number = static_cast<double>(read_value);
              return number >= least && number <= most;
            });
  }
  /// Whether it is legal is for the caller to say, `wanted` in words.
  template <class T, class Check>
  void read_if(const std::string& name, T& value, const std::string& wanted,
               const Check& is_legal) {
    names_.push_back(name);
    if (!object_.contains(name))
      return;
    const auto found = json_as<T>(object_[name]);
    if (!found || !is_legal(*found))
      fail(code_, "{}{} must be {}, but is {}", prefix_, name, wanted,
           printable(json_text(object_[name])));
    value = *found;
  }
  /// An object within; an empty one if it is missing.
  json_object inner(const std::string& name) {
    static const auto nothing = Json::object();
    names_.push_back(name);
    return {object_.contains(name) ? object_[name] : nothing, name, name + "."};
  }
  /// Refuses an object that lacks a field that was read.
  void require_all() const {
    for (const auto& name : names_)
      if (!object_.contains(name))
        fail(code_, "{} lacks the field '{}'", owner_, name);
  }
  void require_known() const {
    for (const auto& [name, value] : object_.items())
      if (std::ranges::find(names_, name) == names_.end())
        fail(code_, "{} has no field '{}'; its fields are {}", owner_,
             printable(name), fmt::join(names_, ", "));
  }

 private:
  const Json& object_;
  std::string owner_, prefix_;
  error_code code_;
  std::vector<std::string> names_;
};

}  // namespace troupe
