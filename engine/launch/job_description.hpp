#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Properties that must be equal in all processes, by name: settings, the
/// program's version. Compared before the first step.
using job_description = std::vector<std::pair<std::string, std::string>>;

/// The first setting that differs, with both values; empty if none does.
std::string difference(const job_description& leader,
                       const job_description& other);

}  // namespace troupe
