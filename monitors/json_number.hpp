#pragma once

#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {

/// JSON has no numbers that are not finite: they become "NaN", "Infinity" and
/// "-Infinity", which Python's `float` and JavaScript's `Number` read.
template <class Json = nlohmann::json>
Json json_number(double value) {
  if (std::isfinite(value))
    return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

}  // namespace troupe
