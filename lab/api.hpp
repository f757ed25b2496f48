#pragma once

#include <string>
#include <string_view>

namespace troupe::lab {

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

}  // namespace troupe::lab
