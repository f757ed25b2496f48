#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

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

/// An answer over HTTP: JSON, or the text of an error.
struct reply {
  unsigned status = 200;
  std::string body{};
};

/// Answers `/api/draw` and `/api/export`, whose requests are JSON, and
/// `/api/schedules`. A refusal is {"error": its sentence} with status 400; an
/// unknown path has status 404. Keeps nothing from one request to the next; any
/// thread.
reply answer(const std::string& path, std::string_view body);

/// The page, made at build time of the files in `page/`: HTML with its style
/// and script inside. `@nonce@` stands where a response's nonce belongs.
std::string_view page();

}  // namespace troupe::lab
