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
    fail(error_code::malformed_text, "the text is no JSON");
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
  fail(error_code::malformed_text, "'{}' is no number", field);
}

const json& field_of(const json& object, const char* name) {
  if (!object.is_object())
    fail(error_code::malformed_text, "'{}' is not there: this is no object",
         name);
  const auto at = object.find(name);
  if (at == object.end())
    fail(error_code::malformed_text, "'{}' is missing", name);
  return *at;
}

const json& list_of(const json& object, const char* name) {
  const auto& found = field_of(object, name);
  if (!found.is_array())
    fail(error_code::malformed_text, "'{}' is no list", name);
  return found;
}

std::string text_of(const json& object, const char* name) {
  const auto& found = field_of(object, name);
  if (!found.is_string())
    fail(error_code::malformed_text, "'{}' is no text", name);
  return found.get<std::string>();
}

bool flag_of(const json& object, const char* name) {
  const auto& found = field_of(object, name);
  if (!found.is_boolean())
    fail(error_code::malformed_text, "'{}' is neither true nor false", name);
  return found.get<bool>();
}

double number_of(const json& object, const char* name) {
  return as_number(field_of(object, name), name);
}

}  // namespace troupe
