#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

// A file is replaced, but where the run has resumed from step `resumed`: then
// the lines up to that step stay.

/// CSV (RFC 4180) with the header `step,phase,name,value`
/// and a row a metric. A record's rows come whole. Values are the shortest
/// decimals that read back the same, or nan, inf, -inf. Alerts and histograms
/// are left out. Throws `io`.
sink_pointer csv_sink(const std::string& path, std::int64_t resumed = 0);

/// JSON lines, each whole when written:
/// `{"step":1,"phase":"training","metrics":{NAME:VALUE,..}}`, where there are
/// histograms `"histograms":{NAME:{"zeros":N,"bins":{"-3":N,..}}}` (bin e
/// counts 2^e <= |x| < 2^(e+1)), and for alerts
/// `{"step":1,"phase":"training","alert":TEXT,"monitor":NAME}`. Values that are
/// not finite are the strings "NaN", "Infinity" and "-Infinity", which JSON's
/// numbers lack; float(x) of Python and Number(x) of JavaScript read them.
/// Throws `io`.
sink_pointer json_lines_sink(const std::string& path, std::int64_t resumed = 0);

struct terminal_options {
  std::string match{};   // globs over metrics, joined by commas; empty: none
  std::size_t top = 10;  // of a record, so many metrics of largest |value|
  std::optional<bool> colour{};  // default: if `out` is a terminal
  std::FILE* out = stdout;       // has to outlive the sink
};

/// Prints alerts, and those metrics that are asked for, as lines `step N NAME
/// VALUE`, largest first and NaN before all. Control characters are
/// shown as their numbers. Each alert and record is one write. Throws
/// `invalid_argument`; a terminal that is gone is no error.
sink_pointer terminal_sink(const terminal_options& options = {});

}  // namespace troupe
