#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

// Reading JSON that anybody may have written: whatever is not as it should be
// is `malformed_text`, naming the field.

/// Any text to JSON; at most 32 levels deep.
inline nlohmann::json parse_json(std::string_view text) {
  constexpr int most_levels = 32;
  auto parsed = parsed_json(text, most_levels);
  if (parsed.is_discarded())
    fail(error_code::malformed_text,
         "the text is not JSON, or of more than {} levels", most_levels);
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
  if (const auto typed = json_as<T>(value))
    return *typed;
  fail(error_code::malformed_text, "'{}' is not {}", field, json_kind<T>());
}

inline const nlohmann::json& field_of(const nlohmann::json& object,
                                      const char* name) {
  if (!object.is_object())
    fail(error_code::malformed_text, "'{}' is missing: this is not an object",
         name);
  const auto place = object.find(name);
  if (place == object.end())
    fail(error_code::malformed_text, "'{}' is missing", name);
  return *place;
}

template <class T>
T field(const nlohmann::json& object, const char* name) {
  return value_of<T>(field_of(object, name), name);
}

/// Refuses what clients ask for beyond these fields, which would be ignored:
/// throws `malformed_text` naming the first one.
inline void require_known(const nlohmann::json& object,
                          const std::string& owner,
                          const std::vector<std::string_view>& fields) {
  if (!object.is_object())
    fail(error_code::malformed_text, "{} is not an object", owner);
  for (const auto& [name, value] : object.items())
    if (std::ranges::find(fields, name) == fields.end())
      fail(error_code::malformed_text,
           "{} has no field '{}' in the job's version of troupe, but {}", owner,
           printable(name),
           fields.empty() ? "none at all"
                          : fmt::format("{}", fmt::join(fields, ", ")));
}

/// Whether a truth value is there, and true.
inline bool has_flag(const nlohmann::json& object, const char* name) {
  return object.contains(name) && field<bool>(object, name);
}

}  // namespace troupe
