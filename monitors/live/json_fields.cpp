#include "troupe/monitors/live/json_fields.hpp"

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

using nlohmann::json;

/// How deep brackets stand in each other, outside of strings.
int depth_of(std::string_view text) {
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

}  // namespace

json parse_json(std::string_view text) {
  if (depth_of(text) > 32)
    fail(error_code::malformed_text, "JSON of more than 32 levels");
  auto parsed = json::parse(text, nullptr, false);
  if (parsed.is_discarded())
    fail(error_code::malformed_text, "the text is not JSON");
  return parsed;
}

std::string json_text(const json& value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

double as_number(const json& value, const std::string& field) {
  if (value.is_number())
    return value.get<double>();
  using limits = std::numeric_limits<double>;
  if (value == "NaN")
    return limits::quiet_NaN();
  if (value == "Infinity")
    return limits::infinity();
  if (value == "-Infinity")
    return -limits::infinity();
  fail(error_code::malformed_text, "'{}' is not a number", field);
}

const json& field_of(const json& object, const char* name) {
  if (!object.is_object())
    fail(error_code::malformed_text, "'{}' is missing: this is not an object",
         name);
  const auto found = object.find(name);
  if (found == object.end())
    fail(error_code::malformed_text, "'{}' is missing", name);
  return *found;
}

const json& as_list(const json& value, const std::string& field) {
  if (!value.is_array())
    fail(error_code::malformed_text, "'{}' is not a list", field);
  return value;
}

std::string as_text(const json& value, const std::string& field) {
  if (!value.is_string())
    fail(error_code::malformed_text, "'{}' is not a string", field);
  return value.get<std::string>();
}

bool as_flag(const json& value, const std::string& field) {
  if (!value.is_boolean())
    fail(error_code::malformed_text, "'{}' is neither true nor false", field);
  return value.get<bool>();
}

const json& list_of(const json& object, const char* name) {
  return as_list(field_of(object, name), name);
}

std::string text_of(const json& object, const char* name) {
  return as_text(field_of(object, name), name);
}

bool flag_of(const json& object, const char* name) {
  return as_flag(field_of(object, name), name);
}

double number_of(const json& object, const char* name) {
  return as_number(field_of(object, name), name);
}

}  // namespace troupe
