#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/fields.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/engine/events/globs.hpp"

namespace troupe {

/// The settings in a spec of a monitor or a sink: `key=value,...`. A part
/// without `=` belongs to the value before it. Whatever is not asked for is
/// unknown. All members throw `invalid_argument` naming the owner.
class settings {
 public:
  /// `owner` for errors: "monitor gap".
  settings(std::string owner, const std::string& text)
    : owner_(std::move(owner)) {
    std::string* last = nullptr;
    for (std::size_t start = 0; start < text.size();) {
      const auto end = std::min(text.find(',', start), text.size());
      const auto part = text.substr(start, end - start);
      start = end + 1;
      const auto equals = part.find('=');
      if (equals == std::string::npos && last)
        *last += "," + part;
      else if (equals == std::string::npos)
        fail(error_code::invalid_argument,
             "{}: '{}' is not a setting; write key=value", owner_, part);
      else
        last = &(values_[part.substr(0, equals)] = part.substr(equals + 1));
    }
  }

  /// Leaves `target` as it is where the key is missing.
  template <class T>
  void operator()(const char* key, T& target) {
    if (const auto* text = find(key))
      target = value_of<T>(key, *text);
  }

  bool has(const std::string& key) const { return values_.contains(key); }
  /// For a key that names a place which the text must not choose: its value, if
  /// there is one, is `true`.
  void require_no_place(const char* key) const {
    const auto found = values_.find(key);
    if (found != values_.end() && found->second != "true")
      fail(error_code::invalid_argument,
           "{}: {}={} names a place, but the files of an attached monitor are "
           "in the job's --attach-folder, under names that the job chooses; "
           "write {}=true",
           owner_, key, found->second, key);
  }
  void set(const char* key, const std::string& text) { values_[key] = text; }

  /// Reads the fields of a type (base/fields.hpp), and no others may be given.
  template <class Options>
  Options all(Options options = {}) {
    fields(*this, options);
    require_all_read();
    return options;
  }

  /// Throws for the first setting that nobody has read.
  void require_all_read() const {
    for (const auto& [key, value] : values_)
      if (std::ranges::find(keys_, key) == keys_.end())
        fail(error_code::invalid_argument, "{} has no setting '{}'; it has {}",
             owner_, key, fmt::join(keys_, ", "));
  }

 private:
  const std::string* find(const char* key) {
    keys_.emplace_back(key);
    const auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
  }
  [[noreturn]] void refuse(const char* key, const std::string& text,
                           const char* wanted) const {
    fail(error_code::invalid_argument, "{}: {}={} is not {}", owner_, key, text,
         wanted);
  }
  std::vector<std::int64_t> numbers(const char* key,
                                    const std::string& text) const {
    std::vector<std::int64_t> all;
    for (const auto& part : globs_of(text))
      all.push_back(number<std::int64_t>(key, part, "whole numbers"));
    return all;
  }

  template <class T>
  T value_of(const char* key, const std::string& text) const {
    if constexpr (std::same_as<T, std::vector<std::int64_t>>) {
      return numbers(key, text);
    } else if constexpr (requires {
                           typename T::value_type;
                           T().value();
                         }) {
      return value_of<typename T::value_type>(key, text);
    } else if constexpr (std::is_enum_v<T>) {
      return one_of<T>(key, text);
    } else if constexpr (std::same_as<T, std::string>) {
      // A flag without a value arrives as `true`, which is no name worth
      // having.
      if (text == "true")
        refuse(key, text, "a string; is its value missing?");
      return text;
    } else if constexpr (std::same_as<T, bool>) {
      if (text != "true" && text != "false")
        refuse(key, text, "true or false");
      return text == "true";
    } else {
      return number<T>(key, text,
                       std::integral<T> ? "a whole number" : "a number");
    }
  }

  /// The value whose name, by `to_text`, is the text.
  template <class Enum>
  Enum one_of(const char* key, const std::string& text) const {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(largest_value<Enum>); ++i) {
      names.emplace_back(to_text(static_cast<Enum>(i)));
      if (names.back() == text)
        return static_cast<Enum>(i);
    }
    refuse(key, text, fmt::format("{}", fmt::join(names, " or ")).c_str());
  }

  template <class Number>
  Number number(const char* key, const std::string& text,
                const char* wanted) const {
    const auto value = parse_number<Number>(text);
    if (!value)
      refuse(key, text, wanted);
    return *value;
  }

  std::string owner_;
  std::map<std::string, std::string> values_;
  std::vector<std::string> keys_;
};

}  // namespace troupe
