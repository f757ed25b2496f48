#pragma once

#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Replaces the file by CSV (RFC 4180) with the header `step,phase,name,value`
/// and a row a metric. A record's rows come whole. Values are the shortest
/// decimals that read back the same, or nan, inf, -inf. Alerts and histograms
/// are left out. Throws `io`.
sink_pointer csv_sink(const std::string& path);

}  // namespace troupe
