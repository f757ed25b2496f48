#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// How many levels of lists and objects a text has, if it is JSON.
inline int json_levels(std::string_view text) {
  int depth = 0, deepest = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    if (c == '"')
      quoted = !quoted;
    else if (quoted)
      i += c == '\\' ? 1 : 0;
    else if (c == '[' || c == '{')
      deepest = std::max(deepest, ++depth);
    else if (c == ']' || c == '}')
      --depth;
  }
  return deepest;
}

/// Any text as JSON; discarded if it is not, or has more than so many levels:
/// dumping and comparing recurse.
template <class Json = nlohmann::json>
Json parsed_json(std::string_view text, int most_levels) {
  return json_levels(text) > most_levels ? Json(Json::value_t::discarded)
                                         : Json::parse(text, nullptr, false);
}

/// In one line, or indented; bytes that are no UTF-8 are replaced.
template <class Json = nlohmann::json>
std::string json_text(const Json& value, int indent = -1) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// JSON has no numbers that are not finite: they become "NaN", "Infinity" and
/// "-Infinity", which Python's `float` and JavaScript's `Number` read.
template <class Json = nlohmann::json>
Json json_number(double value) {
  if (std::isfinite(value))
    return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

/// What `json_as` takes, in words.
template <class T>
std::string json_kind() {
  if constexpr (std::same_as<T, bool>)
    return "true or false";
  else if constexpr (std::same_as<T, double>)
    return "a number";
  else if constexpr (std::same_as<T, std::string>)
    return "a string";
  else if constexpr (std::integral<T>)
    return "a whole number in range";
  else if constexpr (requires { typename T::mapped_type; })
    return fmt::format("an object, each value {}",
                       json_kind<typename T::mapped_type>());
  else
    return fmt::format("a list, each item {}",
                       json_kind<typename T::value_type>());
}

/// The value as it stands there; none if it is of another kind, or if the type
/// can't hold it.
template <class T, class Json>
std::optional<T> json_as(const Json& value) {
  const auto got = [&](bool is_kind) {
    return is_kind ? std::optional(value.template get<T>()) : std::nullopt;
  };
  if constexpr (std::same_as<T, bool>) {
    return got(value.is_boolean());
  } else if constexpr (std::same_as<T, double>) {
    return got(value.is_number());
  } else if constexpr (std::same_as<T, std::string>) {
    return got(value.is_string());
  } else if constexpr (std::integral<T>) {
    const bool is_wide = value.is_number_unsigned();
    return got(is_wide
                 ? std::in_range<T>(value.template get<std::uint64_t>())
                 : value.is_number_integer()
                     && std::in_range<T>(value.template get<std::int64_t>()));
  } else if constexpr (requires { typename T::mapped_type; }) {
    return got(value.is_object() && std::ranges::all_of(value, [](auto& each) {
                 return json_as<typename T::mapped_type>(each).has_value();
               }));
  } else {
    return got(value.is_array() && std::ranges::all_of(value, [](auto& each) {
                 return json_as<typename T::value_type>(each).has_value();
               }));
  }
}

}  // namespace troupe
