#pragma once

// What the C++ blocks of the documentation take as given.

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/monitors/live/attachment.hpp"
#include "troupe/monitors/live/endpoint_server.hpp"
#include "troupe/monitors/live/serve.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/monitors/tensors/gap.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/rules.hpp"

using namespace troupe;

// Within each block's function, so that names of types can be told apart.
#define TROUPE_GIVEN                          \
  extern gpt_options sizes;                   \
  extern source_pointer text;                 \
  extern model layers;                        \
  extern trainer_options options;             \
  extern trainer run;                         \
  extern sink_pointer sink;                   \
  extern decltype(job_operations::make) make; \
  extern monitor my_monitor;
