#pragma once

#include <cstdint>
#include <vector>

#include "small_model.hpp"

namespace troupe::testing {

struct job_result {
  parameter_list parameters;
  std::vector<double> losses;
};

/// Trains in a job of so many processes, which are threads of this one; 1:
/// without a job. The leading process's results.
job_result train_in_job(const small_case& what, std::int32_t processes,
                        int steps = 3);

/// Checks that so many processes train the bits of one.
void check_job_bits(const small_case& what, std::int32_t processes);

}  // namespace troupe::testing
