#pragma once

#include <cstdint>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/pipeline.hpp"
#include "troupe/actors/step/coordinator_actor.hpp"

namespace troupe {

// What follows from the options of a pipeline.

job_layout layout_of(const pipeline_options& options);

/// Bytes of parameters of the largest stage, of those that live here.
std::int64_t largest_stage(const pipeline_options& options);

/// Boards on which ranks of other processes are marked as such.
supervision make_supervision(const pipeline_options& options);

/// The job's, or a new one.
std::uint64_t run_id(const pipeline_options& options);

}  // namespace troupe
