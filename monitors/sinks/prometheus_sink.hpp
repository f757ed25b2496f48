#pragma once

#include <functional>
#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

struct prometheus_options {
  std::string address = "127.0.0.1:0";  // see http_options
  std::string token{};
  /// Told where it is served, `http://127.0.0.1:43211/metrics`, before
  /// `prometheus_sink` returns; if empty, that is logged.
  std::function<void(const std::string& url)> listening = {};
};

/// Serves what prometheus_text.hpp makes of metrics and alerts at `/metrics`,
/// until it is destroyed. Nobody who asks delays a monitor. Throws
/// `invalid_argument` and `io`.
sink_pointer prometheus_sink(const prometheus_options& options);

}  // namespace troupe
