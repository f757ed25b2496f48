#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// Makes a sink of a text: `terminal`, `terminal:match=gap/*,top=10`,
/// `json:FILE`, `csv:FILE`, `tensorboard:FOLDER`, `prometheus:HOST:PORT` or
/// `prometheus:HOST:PORT,token_file=FILE`. A part of settings without `=`
/// belongs to the value before it: `match=gap/*,spike/*`. Where the run has
/// resumed from step `resumed`, files go on behind it; 0: they are replaced.
/// Metrics for Prometheus are a resource of `site`; null: of one of their own.
/// Throws `invalid_argument` with what there is, and `io`.
sink_pointer make_sink(const std::string& spec, std::int64_t resumed = 0,
                       const http_site_pointer& site = nullptr);

/// Throws what `make_sink` would throw for this text, and makes nothing: for a
/// look before any work.
void require_sink(const std::string& spec);

/// The file that a sink of this text would replace; empty: none. Throws
/// `invalid_argument`.
std::string sink_output(const std::string& spec);

/// The file that a sink of this text reads, such as a token; empty: none.
/// Throws `invalid_argument`.
std::string sink_input(const std::string& spec);

/// The names of all sinks.
std::vector<std::string> sink_names();

/// A line for each sink and its settings, for `--help`.
std::string sink_help();

}  // namespace troupe
