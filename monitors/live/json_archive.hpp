#pragma once

#include <c10/core/ScalarType.h>

#include <type_traits>

#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/subscription_json.hpp"
#include "troupe/monitors/phase_name.hpp"

namespace troupe {

// The JSON form of types that have `fields` (base/fields.hpp), without those
// within the job. Enumerations are numbers, but for those with names.

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
  explicit json_output(nlohmann::json& target) : target_(target) {}

  template <class T>
  void within_job(const char*, const T&) {}
  template <class T>
  void for_clients(const char* name, const T& value) {
    operator()(name, value);
  }

  void operator()(const char* name, const shared_histogram& value) {
    if (value)
      target_[name] = bins_of(*value);
  }
  template <class T>
  void operator()(const char* name, const T& value) {
    if (target_.is_array())
      target_.push_back(to_json(value));
    else
      target_[name] = to_json(value);
  }

 private:
  nlohmann::json& target_;
};

template <class T>
nlohmann::json to_json(const T& value) {
  if constexpr (std::is_same_v<T, phase>)
    return phase_name(value);
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    return c10::toString(value);
  else if constexpr (std::is_same_v<T, tensor_kinds>)
    return names_of(value.set);
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
    json_output other(made);
    fields(other, const_cast<T&>(value));  // fields only reads it
    return made;
  }
}

template <class T>
void read_json(const nlohmann::json& value, const char* name, T& target);

/// Reads fields of an object, or of a row; throws `malformed_text` naming the
/// field.
class json_input {
 public:
  static constexpr bool reads = true;
  explicit json_input(const nlohmann::json& value, bool may_lack = false)
    : source_(value), may_lack_(may_lack) {}

  template <class T>
  void within_job(const char*, T&) {}
  template <class T>
  void for_clients(const char* name, T& value) {
    operator()(name, value);
  }

  void operator()(const char* name, shared_histogram& value) {
    value = source_.contains(name) ? histogram_of(list_of(source_, name))
                                   : shared_histogram{};
  }
  template <class T>
  void operator()(const char* name, T& value) {
    if (!may_lack_ || source_.contains(name))
      read_json(next(name), name, value);
  }
  void require(bool is_valid, const char* name) const {
    if (!is_valid)
      fail(error_code::malformed_text, "'{}' is of an unknown kind", name);
  }
  /// A row is as long as its fields.
  void finish(const char* name) const {
    if (source_.is_array() && source_.size() != used_)
      fail(error_code::malformed_text, "'{}' has rows of {} values, not {}",
           name, source_.size(), used_);
  }

 private:
  const nlohmann::json& next(const char* name) {
    if (!source_.is_array())
      return field_of(source_, name);
    if (used_ == source_.size())
      fail(error_code::malformed_text, "'{}' is missing in a row", name);
    return source_[used_++];
  }

  const nlohmann::json& source_;
  bool may_lack_;
  std::size_t used_ = 0;
};

template <class T>
void read_json(const nlohmann::json& source, const char* name, T& target) {
  if constexpr (std::is_same_v<T, std::string>)
    target = as_text(source, name);
  else if constexpr (std::is_same_v<T, phase>)
    target = phase_of(as_text(source, name));
  else if constexpr (std::is_same_v<T, at::ScalarType>)
    target = dtype_of(as_text(source, name));
  else if constexpr (std::is_same_v<T, tensor_kinds>)
    target.set = tensor_kinds_of(as_text(source, name));
  else if constexpr (std::is_enum_v<T>) {
    const auto value = whole_of<std::uint8_t>(source, name);
    if (value > static_cast<std::uint8_t>(largest_value<T>))
      fail(error_code::malformed_text, "'{}' is of an unknown kind", name);
    target = static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, bool>)
    target = as_flag(source, name);
  else if constexpr (std::is_floating_point_v<T>)
    target = as_number(source, name);
  else if constexpr (std::is_integral_v<T>)
    target = whole_of<T>(source, name);
  else if constexpr (requires { target.emplace_back(); }) {
    for (const auto& each : as_list(source, name))
      read_json(each, name, target.emplace_back());
  } else {
    if (source.is_array() != travels_as_row<T> || !source.is_structured())
      fail(error_code::malformed_text, "'{}' is not {}", name,
           travels_as_row<T> ? "a list of rows" : "an object");
    json_input other(source, may_lack_fields<T>);
    fields(other, target);
    other.finish(name);
  }
}

}  // namespace troupe
