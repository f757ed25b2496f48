#pragma once

#include <string>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// A built-in schedule of this shape, or the one in a file, whose own shape
/// counts: what `--schedule NAME|FILE.csv` means. Throws `error`.
schedule find_schedule(const std::string& name_or_path,
                       const schedule_shape& shape);

/// Whether a name is that of a file: it has a dot or a slash.
bool names_file(const std::string& name_or_path);

}  // namespace troupe
