#pragma once

#include "troupe/engine/launch/job.hpp"

namespace troupe {

/// Joins one process to its job: meets the others and adds the connections to
/// them to the mesh. Returns when all are ready; throws as `join_job` does.
void meet(io_loop& loop, mesh& target, const job_options& options);

}  // namespace troupe
