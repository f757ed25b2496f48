#pragma once

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "../../files.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe::testing {

inline metrics_record record_of(std::int64_t step, std::vector<metric> values,
                                phase phase = phase::training) {
  metrics_record made;
  made.source.step = step;
  made.source.phase = phase;
  made.values = std::move(values);
  return made;
}

inline alert alert_of(std::int64_t step, std::string monitor,
                      std::string text) {
  alert made;
  made.source.step = step;
  made.monitor = std::move(monitor);
  made.text = std::move(text);
  return made;
}

}  // namespace troupe::testing
