#pragma once

#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>

namespace troupe::testing {

/// Matches an exception whose message contains a text.
inline auto says(const std::string& text) {
  return Catch::Matchers::MessageMatches(
    Catch::Matchers::ContainsSubstring(text));
}

}  // namespace troupe::testing
