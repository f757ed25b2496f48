#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// What has to be the same in all processes, by name: settings, the program's
/// version. Compared before the first step.
using job_description = std::vector<std::pair<std::string, std::string>>;

/// Empty, or the first setting that differs, with both values.
std::string difference(const job_description& leader,
                       const job_description& other);

}  // namespace troupe
