#pragma once

#include <string>

#include "troupe/lab/job.hpp"

namespace troupe::lab {

/// A C++ function that generates the lanes of a job by its rules.
std::string rules_code(const job& job);

}  // namespace troupe::lab
