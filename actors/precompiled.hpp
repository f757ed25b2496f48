#pragma once

// For target_precompile_headers of projects that use the package: what nearly
// every file that trains includes.
#include "troupe/actors/trainer.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/lane_builder.hpp"
