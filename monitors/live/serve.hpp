#pragma once

#include "troupe/actors/trainer.hpp"
#include "troupe/monitors/live/attached_monitors.hpp"

namespace troupe {

/// A live job's operations on a trainer, which must outlive the server that
/// gets them: monitors that `make` makes, and `info` with schedule, ranks,
/// stages, microbatches, messages, steps, the step that was finished last, and
/// how the run is.
/// Attaches a monitor of its own for that.
job_operations operations_of(trainer& run, decltype(job_operations::make) make,
                             std::int64_t steps = 0);

}  // namespace troupe
