#pragma once

#include <string>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// Resolves `--schedule NAME|FILE.csv`: a built-in schedule of this shape, or
/// the one in a file, which has its own shape. Throws `error`.
schedule find_schedule(const std::string& name_or_path,
                       const schedule_shape& shape);

/// Whether a name is a file's: it has a dot or a slash.
bool names_file(const std::string& name_or_path);

}  // namespace troupe
