#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/lab/job.hpp"

namespace troupe::lab {

/// What the page draws: sizes, times, ops with their inputs, memory by rank,
/// channels, and the verdict with the drawing of a deadlock. docs/lab.md names
/// the fields. Throws `error` as `make_plan`, but not for a deadlock.
nlohmann::ordered_json draw(const job& job, svg_theme theme);

/// The job's schedule as a file.
struct exported {
  std::string file;  // a name to save it under
  std::string text;
};

/// `format` is csv, text, plan, lowered_csv, svg, trace, json, cpp (a call of
/// the catalogue or of the rules, where the job names one) or cpp_lanes. Throws
/// `error` as `make_plan`, and for what a format can't express.
exported export_as(const job& job, const std::string& format, svg_theme theme);

}  // namespace troupe::lab
