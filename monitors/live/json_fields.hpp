#pragma once

#include "troupe/base/error.hpp"
#include "troupe/base/json.hpp"

namespace troupe {

// Reading JSON that anybody may have written: whatever is not as it should be
// is `malformed_text`, naming the field.

/// Any text to JSON; at most 32 levels deep.
inline nlohmann::json parse_json(std::string_view text) {
  auto parsed = parsed_json(text, 32);
  if (parsed.is_discarded())
    fail(error_code::malformed_text,
         "the text is not JSON, or of more than 32 levels");
  return parsed;
}

/// The value of a field; numbers also as `json_number` writes them.
template <class T>
T value_of(const nlohmann::json& value, const std::string& field) {
  if constexpr (std::same_as<T, double>)
    if (value.is_string())
      for (const auto each : {HUGE_VAL, -HUGE_VAL, std::nan("")})
        if (value == json_number(each))
          return each;
  if (const auto found = json_as<T>(value))
    return *found;
  fail(error_code::malformed_text, "'{}' is not {}", field, json_kind<T>());
}

inline const nlohmann::json& field_of(const nlohmann::json& object,
                                      const char* name) {
  if (!object.is_object())
    fail(error_code::malformed_text, "'{}' is missing: this is not an object",
         name);
  const auto found = object.find(name);
  if (found == object.end())
    fail(error_code::malformed_text, "'{}' is missing", name);
  return *found;
}

template <class T>
T field(const nlohmann::json& object, const char* name) {
  return value_of<T>(field_of(object, name), name);
}

/// Whether a truth value is there, and true.
inline bool has_flag(const nlohmann::json& object, const char* name) {
  return object.contains(name) && field<bool>(object, name);
}

}  // namespace troupe
