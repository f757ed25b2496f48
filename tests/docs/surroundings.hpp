#pragma once

// The declarations that the C++ blocks of the documentation assume.

#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/linear.h>

#include "troupe/fused.hpp"
#include "troupe/job.hpp"
#include "troupe/monitor.hpp"
#include "troupe/plan.hpp"
#include "troupe/train.hpp"

using namespace troupe;

// Declared within each block's function, so that names of types are not
// ambiguous.
#define TROUPE_GIVEN              \
  extern gpt_options sizes;       \
  extern source_pointer text;     \
  extern model layers;            \
  extern trainer_options options; \
  extern trainer run;             \
  extern sink_pointer sink;       \
  extern monitor my_monitor;
