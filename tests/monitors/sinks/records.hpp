#pragma once

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

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

inline std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace troupe::testing
