#pragma once

#include <string>

#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Replaces the file by JSON lines, each whole when written:
/// `{"step":1,"phase":"training","metrics":{NAME:VALUE,..}}`, where there are
/// histograms `"histograms":{NAME:{"zeros":N,"bins":{"-3":N,..}}}` (bin e
/// counts 2^e <= |x| < 2^(e+1)), and for alerts
/// `{"step":1,"phase":"training","alert":TEXT,"monitor":NAME}`. Values that are
/// not finite are the strings "NaN", "Infinity" and "-Infinity", which JSON's
/// numbers lack; float(x) of Python and Number(x) of JavaScript read them.
/// Throws `io`.
sink_pointer json_lines_sink(const std::string& path);

}  // namespace troupe
