#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "small_model.hpp"
#include "troupe/engine/transport/job_meeting.hpp"

namespace troupe::testing {

struct job_result {
  parameter_list parameters;
  std::vector<double> losses;
};

/// Trains in a job of so many processes, which are threads of this one; 1:
/// without a job. The leading process's results.
job_result train_in_job(const small_case& what, std::int32_t processes,
                        int steps = 3);

/// For healing_options of a job in which no process is lost.
job_meeting no_rejoin(const std::vector<held_rank>& held,
                      const std::optional<failed_op>& why);

/// Checks that so many processes train the bits of one.
void check_job_bits(const small_case& what, std::int32_t processes);

}  // namespace troupe::testing
