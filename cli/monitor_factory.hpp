#pragma once

#include "troupe/actors/trainer.hpp"
#include "troupe/monitors/live/monitor_desk.hpp"

namespace troupe::cli {

/// Makes monitors of specs for a run, which must outlive it.
decltype(live_powers::make) monitor_factory(trainer& run);

}  // namespace troupe::cli
