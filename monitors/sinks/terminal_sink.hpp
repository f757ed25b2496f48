#pragma once

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

struct terminal_options {
  std::string match{};   // globs over metrics, joined by commas; empty: none
  std::size_t top = 10;  // of a record, so many metrics of largest |value|
  std::optional<bool> colour{};  // default: if `out` is a terminal
  std::FILE* out = stdout;       // has to outlive the sink
};

/// Prints alerts, and those metrics that are asked for, as lines `step N NAME
/// VALUE`, largest first and NaN before all. What a terminal would obey is
/// shown as its number. Each alert and record is one write. Throws
/// `invalid_argument`; a terminal that is gone is no error.
sink_pointer terminal_sink(const terminal_options& options = {});

}  // namespace troupe
