#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/monitors/json_number.hpp"

namespace troupe {

// Reading JSON that anybody may have written: whatever is not as it should be
// is `malformed_text`, naming the field.

/// Any text to JSON; at most 32 levels deep.
nlohmann::json parse_json(std::string_view text);
/// One line; bytes that are no UTF-8 are replaced.
std::string json_text(const nlohmann::json& value);

/// A number as `json_number` writes it.
double as_number(const nlohmann::json& value, const std::string& field);

std::string as_text(const nlohmann::json& value, const std::string& field);
bool as_flag(const nlohmann::json& value, const std::string& field);
const nlohmann::json& as_list(const nlohmann::json& value,
                              const std::string& field);

const nlohmann::json& field_of(const nlohmann::json& object, const char* name);
const nlohmann::json& list_of(const nlohmann::json& object, const char* name);
std::string text_of(const nlohmann::json& object, const char* name);
bool flag_of(const nlohmann::json& object, const char* name);
double number_of(const nlohmann::json& object, const char* name);

template <class Whole>
Whole whole_of(const nlohmann::json& value, const std::string& field) {
  if (value.is_number_unsigned()) {
    const auto found = value.get<std::uint64_t>();
    if (std::in_range<Whole>(found))
      return static_cast<Whole>(found);
  } else if (value.is_number_integer()) {
    const auto found = value.get<std::int64_t>();
    if (std::in_range<Whole>(found))
      return static_cast<Whole>(found);
  }
  fail(error_code::malformed_text, "'{}' is not a whole number in range",
       field);
}

}  // namespace troupe
