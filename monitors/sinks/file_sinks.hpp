#pragma once

#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Replaces the file by CSV (RFC 4180) with the header `step,phase,name,value`
/// and a row a metric. A record's rows come whole. Values are the shortest
/// decimals that read back the same, or nan, inf, -inf. Alerts and histograms
/// are left out. Throws `io`.
sink_pointer csv_sink(const std::string& path);

/// Replaces the file by JSON lines, each whole when written:
/// `{"step":1,"phase":"training","metrics":{NAME:VALUE,..}}`, where there are
/// histograms `"histograms":{NAME:{"zeros":N,"bins":{"-3":N,..}}}` (bin e
/// counts 2^e <= |x| < 2^(e+1)), and for alerts
/// `{"step":1,"phase":"training","alert":TEXT,"monitor":NAME}`. Values that are
/// not finite are the strings "NaN", "Infinity" and "-Infinity", which JSON's
/// numbers lack; float(x) of Python and Number(x) of JavaScript read them.
/// Throws `io`.
sink_pointer json_lines_sink(const std::string& path);

/// Writes scalars and histograms to an event file of its own,
/// `events.out.tfevents.TIME.HOST.PID.N`, in a folder that it makes where it
/// is missing; `tensorboard --logdir` of that folder or one above shows them.
/// Alerts are left out. See tensorboard_event.hpp. Throws `io`.
sink_pointer tensorboard_sink(const std::string& folder);

}  // namespace troupe
