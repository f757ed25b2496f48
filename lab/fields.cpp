#include "troupe/lab/fields.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe::lab {

namespace {

const nlohmann::json nothing = nlohmann::json::object();

// Brackets within texts don't count.
int depth_of(std::string_view text) {
  int depth = 0;
  int most = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    if (is_text && c == '\\')
      ++i;
    else if (c == '"')
      is_text = !is_text;
    else if (!is_text && (c == '[' || c == '{'))
      most = std::max(most, ++depth);
    else if (!is_text && (c == ']' || c == '}'))
      --depth;
  }
  return most;
}

}  // namespace

nlohmann::json parse_request(std::string_view text, std::size_t most_bytes) {
  constexpr int most_levels = 16;
  if (text.size() > most_bytes)
    fail(error_code::invalid_argument,
         "the request has {} bytes; the lab takes {}", text.size(), most_bytes);
  if (depth_of(text) > most_levels)
    fail(error_code::invalid_argument,
         "the request is nested more than {} levels deep", most_levels);
  auto request = nlohmann::json::parse(text, nullptr, false);
  if (request.is_discarded())
    fail(error_code::invalid_argument, "the request is not JSON");
  return request;
}

fields::fields(const nlohmann::json& object, std::string path)
  : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    fail(error_code::invalid_argument, "{} must be a JSON object",
         path_.empty() ? "the request" : path_);
}

const nlohmann::json* fields::find(std::string_view name) {
  known_.emplace_back(name);
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

void fields::refuse(std::string_view name, std::string_view wanted) const {
  fail(error_code::invalid_argument, "{}{} must be {}, but is {}",
       path_.empty() ? "" : path_ + '.', name, wanted,
       printable(object_.at(name).dump(
         -1, ' ', true, nlohmann::json::error_handler_t::replace)));
}

void fields::read(std::string_view name, std::int32_t& value,
                  std::int32_t least, std::int32_t most) {
  const auto* found = find(name);
  if (found == nullptr)
    return;
  const auto wanted = fmt::format("a whole number in {}..{}", least, most);
  if (!found->is_number_integer())
    refuse(name, wanted);
  const auto given = found->get<double>();
  if (!(given >= least && given <= most))
    refuse(name, wanted);
  value = static_cast<std::int32_t>(given);
}

void fields::read(std::string_view name, double& value, double least,
                  double most) {
  const auto* found = find(name);
  if (found == nullptr)
    return;
  const auto wanted = fmt::format("a number in {:g}..{:g}", least, most);
  if (!found->is_number())
    refuse(name, wanted);
  const auto given = found->get<double>();
  if (!(given >= least && given <= most))
    refuse(name, wanted);
  value = given;
}

void fields::read(std::string_view name, bool& value) {
  const auto* found = find(name);
  if (found == nullptr)
    return;
  if (!found->is_boolean())
    refuse(name, "true or false");
  value = found->get<bool>();
}

void fields::read(std::string_view name, std::string& value) {
  const auto* found = find(name);
  if (found == nullptr)
    return;
  if (!found->is_string())
    refuse(name, "a text");
  value = found->get<std::string>();
}

void fields::read(std::string_view name, std::vector<std::string>& values) {
  const auto* found = find(name);
  if (found == nullptr)
    return;
  if (!found->is_array() || !std::ranges::all_of(*found, [](const auto& each) {
        return each.is_string();
      }))
    refuse(name, "a list of strings");
  values = found->get<std::vector<std::string>>();
}

fields fields::inner(std::string_view name) {
  const auto* found = find(name);
  return fields(found == nullptr ? nothing : *found, std::string{name});
}

bool fields::has(std::string_view name) const {
  return object_.contains(name);
}

void fields::require_known() const {
  for (const auto& [name, value] : object_.items())
    if (std::ranges::find(known_, name) == known_.end())
      fail(error_code::invalid_argument,
           "{} has no field '{}'; its fields are {}",
           path_.empty() ? "a request" : path_, printable(name),
           fmt::join(known_, ", "));
}

}  // namespace troupe::lab
