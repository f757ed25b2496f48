#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace troupe {

/// Parses the whole text as a number; none if it isn't one, or if the type
/// can't hold it.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto* end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc{} || stop != end)
    return {};
  return value;
}

}  // namespace troupe
