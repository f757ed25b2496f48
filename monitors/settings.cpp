#include "troupe/monitors/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

settings::settings(std::string owner, const std::string& text)
  : owner_(std::move(owner)) {
  std::string* last = nullptr;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const auto part = text.substr(start, end - start);
    start = end + 1;
    const auto equals = part.find('=');
    if (equals == std::string::npos && last)
      *last += "," + part;
    else if (equals == std::string::npos)
      fail(error_code::invalid_argument,
           "{}: '{}' is not a setting; write key=value", owner_, part);
    else
      last = &(values_[part.substr(0, equals)] = part.substr(equals + 1));
  }
}

std::vector<std::int64_t> settings::numbers(const char* key,
                                            const std::string& text) const {
  std::vector<std::int64_t> all;
  for (std::size_t start = 0; start <= text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    all.push_back(number<std::int64_t>(key, text.substr(start, end - start),
                                       "whole numbers"));
    start = end + 1;
  }
  return all;
}

void settings::require_all_read() const {
  for (const auto& [key, value] : values_)
    if (std::ranges::find(known_, key) == known_.end())
      fail(error_code::invalid_argument, "{} has no setting '{}'; it has {}",
           owner_, key, fmt::join(known_, ", "));
}

const std::string* settings::find(const char* key) {
  known_.emplace_back(key);
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void settings::refuse(const char* key, const std::string& text,
                      const char* wanted) const {
  fail(error_code::invalid_argument, "{}: {}={} is not {}", owner_, key, text,
       wanted);
}

}  // namespace troupe
