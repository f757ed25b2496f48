#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/actors/job/job_layout.hpp"

namespace troupe {

// A hosting names the process of each rank of a job (job_layout).

/// The hosting with one rank, by its number, in another process. Throws
/// `invalid_argument` for a rank that it does not have.
std::vector<std::int32_t> moved(std::vector<std::int32_t> hosting,
                                std::int32_t rank, std::int32_t process);

/// The hosting without ranks in one of a job's processes: each of its ranks
/// goes to the process that then has fewest, the first of these. Throws
/// `invalid_argument` for a process that the job does not have, and for the
/// only one.
std::vector<std::int32_t> drained(std::vector<std::int32_t> hosting,
                                  std::int32_t process, std::int32_t processes);

/// What moves from one hosting to another of the same job: "ranks 1 and 3 moved
/// from process 0 to process 1; rank 2 from process 1 to process 2".
std::string moves_between(const job_layout& before, const job_layout& after);

}  // namespace troupe
