#include "troupe/lab/fields.hpp"

#include <fmt/ranges.h>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe::lab {

namespace {

const nlohmann::json nothing = nlohmann::json::object();

}  // namespace

nlohmann::json parse_request(std::string_view text, std::size_t most_bytes) {
  constexpr int most_levels = 16;
  if (text.size() > most_bytes)
    fail(error_code::invalid_argument,
         "the request has {} bytes; the lab takes {}", text.size(), most_bytes);
  if (json_levels(text) > most_levels)
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

void fields::refuse(const std::string& name, const std::string& wanted) const {
  fail(error_code::invalid_argument, "{}{} must be {}, but is {}",
       path_.empty() ? "" : path_ + '.', name, wanted,
       printable(json_text(object_.at(name))));
}

fields fields::inner(const std::string& name) {
  known_.push_back(name);
  return fields(object_.contains(name) ? object_[name] : nothing, name);
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
