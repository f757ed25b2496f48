#pragma once

#include <cstdint>
#include <string>

#include "troupe/actors/trainer.hpp"
#include "troupe/monitors/live/job_operations.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"

namespace troupe {

class replanner;

/// What a run's monitors are told of it; reports go to the sink. The run must
/// outlive the monitors.
monitor_context context_of(trainer& run, sink_pointer sink);

/// A live job's operations on a trainer, which must outlive the server that
/// gets them: monitors by their specs, and `info` with schedule, ranks, stages,
/// microbatches, messages, steps, the step that was finished last, and how the
/// run is. `steps`: of the whole run; 0: unknown. `orders` outlives the server,
/// too; null: the run keeps its order of ops. Attaches a monitor of its own.
job_operations operations_of(trainer& run, std::int64_t steps = 0,
                             const replanner* orders = nullptr);

/// Whether a run's order of ops can be changed: not that of a recorded step, of
/// one that is replayed, or of updates within a step.
bool can_replan(const trainer& run);

}  // namespace troupe
