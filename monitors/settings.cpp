#include "troupe/monitors/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

settings::settings(std::string owner, const std::string& text)
  : owner_(std::move(owner)) {
  std::string* last = nullptr;
  for (std::size_t from = 0; from < text.size();) {
    const auto to = std::min(text.find(',', from), text.size());
    const auto part = text.substr(from, to - from);
    from = to + 1;
    const auto equals = part.find('=');
    if (equals == std::string::npos && last)
      *last += "," + part;
    else if (equals == std::string::npos)
      fail(error_code::invalid_argument,
           "{}: '{}' is no setting; write key=value", owner_, part);
    else
      last = &(values_[part.substr(0, equals)] = part.substr(equals + 1));
  }
}

void settings::read(const char* key, std::string& into) {
  if (const auto* text = find(key))
    into = given(key, *text);
}

void settings::read(const char* key, std::optional<std::string>& into) {
  if (const auto* text = find(key))
    into = given(key, *text);
}

void settings::read(const char* key, bool& into) {
  const auto* text = find(key);
  if (!text)
    return;
  if (*text != "true" && *text != "false")
    refuse(key, *text, "true or false");
  into = *text == "true";
}

void settings::read(const char* key, double& into) {
  if (const auto* text = find(key))
    into = number<double>(key, *text, "a number");
}

void settings::read(const char* key, std::optional<std::int64_t>& into) {
  if (const auto* text = find(key))
    into = number<std::int64_t>(key, *text, "a whole number");
}

void settings::read(const char* key, std::vector<std::int64_t>& into) {
  const auto* text = find(key);
  if (!text)
    return;
  for (std::size_t from = 0; from <= text->size();) {
    const auto to = std::min(text->find(',', from), text->size());
    into.push_back(number<std::int64_t>(key, text->substr(from, to - from),
                                        "whole numbers"));
    from = to + 1;
  }
}

void settings::require_all_read() const {
  for (const auto& [key, value] : values_)
    if (std::ranges::find(known_, key) == known_.end())
      fail(error_code::invalid_argument, "{} has no setting '{}'; it has {}",
           owner_, key, fmt::join(known_, ", "));
}

const std::string* settings::find(const char* key) {
  known_.emplace_back(key);
  const auto at = values_.find(key);
  return at == values_.end() ? nullptr : &at->second;
}

/// A flag without a value arrives as `true`, which is no name worth having.
const std::string& settings::given(const char* key,
                                   const std::string& text) const {
  if (text == "true")
    refuse(key, text, "a text; was its value left out?");
  return text;
}

void settings::refuse(const char* key, const std::string& text,
                      const char* wanted) const {
  fail(error_code::invalid_argument, "{}: {}={} is not {}", owner_, key, text,
       wanted);
}

}  // namespace troupe
