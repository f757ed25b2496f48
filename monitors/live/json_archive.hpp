#pragma once

#include <c10/core/ScalarType.h>

#include <type_traits>

#include "troupe/engine/events/event_fields.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

// The JSON form of types that have `fields` (engine/events/event_fields.hpp).
// Enumerations are numbers, but for those with names.

/// The largest single value of an enumeration.
constexpr std::uint8_t largest(tensor_kind) {
  return static_cast<std::uint8_t>(tensor_kind::loss);
}
constexpr std::uint8_t largest(tensor_content) {
  return static_cast<std::uint8_t>(tensor_content::other);
}

/// Types that keep a member as it is where JSON leaves its field out.
template <class T>
inline constexpr bool may_lack_fields = false;

phase phase_of(const std::string& name);
at::ScalarType dtype_of(const std::string& name);
/// Most bins are empty: pairs of bin and count.
nlohmann::json bins_of(const log2_histogram& histogram);
log2_histogram histogram_of(const nlohmann::json& list);

template <class T>
nlohmann::json to_json(const T& value);

/// Writes fields into an object, or a row.
class json_output {
 public:
  static constexpr bool reads = false;
  explicit json_output(nlohmann::json& to) : to_(to) {}

  template <class T>
  void within_job(const T&) {}

  void operator()(const char* name, const shared_histogram& value) {
    if (value)
      to_[name] = bins_of(*value);
  }
  template <class T>
  void operator()(const char* name, const T& value) {
    if (to_.is_array())
      to_.push_back(to_json(value));
    else
      to_[name] = to_json(value);
  }

 private:
  nlohmann::json& to_;
};

template <class T>
nlohmann::json to_json(const T& value) {
  if constexpr (std::is_same_v<T, phase>)
    return phase_name(value);
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    return c10::toString(value);
  else if constexpr (std::is_enum_v<T>)
    return static_cast<std::uint8_t>(value);
  else if constexpr (std::is_floating_point_v<T>)
    return json_number(value);
  else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>)
    return value;
  else if constexpr (requires(T & list) { list.push_back({}); }) {
    auto list = nlohmann::json::array();
    for (const auto& each : value)
      list.push_back(to_json(each));
    return list;
  } else {
    auto made =
      travels_as_row<T> ? nlohmann::json::array() : nlohmann::json::object();
    json_output with(made);
    fields(with, const_cast<T&>(value));  // fields only reads it
    return made;
  }
}

template <class T>
void read_json(const nlohmann::json& from, const char* name, T& into);

/// Reads fields of an object, or of a row; throws `malformed_text` naming the
/// field.
class json_input {
 public:
  static constexpr bool reads = true;
  explicit json_input(const nlohmann::json& from, bool may_lack = false)
    : from_(from), may_lack_(may_lack) {}

  template <class T>
  void within_job(T&) {}

  void operator()(const char* name, shared_histogram& value) {
    value = from_.contains(name) ? histogram_of(list_of(from_, name))
                                 : shared_histogram{};
  }
  template <class T>
  void operator()(const char* name, T& value) {
    if (!may_lack_ || from_.contains(name))
      read_json(next(name), name, value);
  }
  /// A row is as long as its fields.
  void finish(const char* name) const {
    if (from_.is_array() && from_.size() != used_)
      fail(error_code::malformed_text, "'{}' has rows of {} values, not {}",
           name, from_.size(), used_);
  }

 private:
  const nlohmann::json& next(const char* name) {
    if (!from_.is_array())
      return field_of(from_, name);
    if (used_ == from_.size())
      fail(error_code::malformed_text, "'{}' is missing in a row", name);
    return from_[used_++];
  }

  const nlohmann::json& from_;
  bool may_lack_;
  std::size_t used_ = 0;
};

template <class T>
void read_json(const nlohmann::json& from, const char* name, T& into) {
  if constexpr (std::is_same_v<T, std::string>)
    into = as_text(from, name);
  else if constexpr (std::is_same_v<T, phase>)
    into = phase_of(as_text(from, name));
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    into = dtype_of(as_text(from, name));
  else if constexpr (std::is_enum_v<T>) {
    const auto value = whole_of<std::uint8_t>(from, name);
    if (value > largest(T{}))
      fail(error_code::malformed_text, "'{}' is of an unknown kind", name);
    into = static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, bool>)
    into = as_flag(from, name);
  else if constexpr (std::is_floating_point_v<T>)
    into = as_number(from, name);
  else if constexpr (std::is_integral_v<T>)
    into = whole_of<T>(from, name);
  else if constexpr (requires { into.emplace_back(); }) {
    for (const auto& each : as_list(from, name))
      read_json(each, name, into.emplace_back());
  } else {
    if (from.is_array() != travels_as_row<T> || !from.is_structured())
      fail(error_code::malformed_text, "'{}' is no {}", name,
           travels_as_row<T> ? "list of rows" : "object");
    json_input with(from, may_lack_fields<T>);
    fields(with, into);
    with.finish(name);
  }
}

}  // namespace troupe
