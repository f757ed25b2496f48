#pragma once

#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../../files.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe::testing {

inline constexpr auto infinity = std::numeric_limits<double>::infinity();
inline constexpr auto quiet_nan = std::numeric_limits<double>::quiet_NaN();

inline metrics_record record_of(std::int64_t step, std::vector<metric> values,
                                phase phase = phase::training) {
  metrics_record record;
  record.source.step = step;
  record.source.phase = phase;
  record.values = std::move(values);
  return record;
}

inline alert alert_of(std::int64_t step, std::string monitor,
                      std::string text) {
  alert result;
  result.source.step = step;
  result.monitor = std::move(monitor);
  result.text = std::move(text);
  return result;
}

}  // namespace troupe::testing
