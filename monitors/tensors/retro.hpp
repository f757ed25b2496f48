#pragma once

#include <cstdint>
#include <string>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct retro_options {
  std::string folder = ".";
  std::int64_t steps = 8;   // that the ring keeps
  std::string match = "*";  // globs over modules and parameters
  bool tensors = false;     // dump the tensors of the last step too
  // Rules; each is off at 0 (but `nonfinite`).
  bool nonfinite = true;   // a NaN or an infinity anywhere
  double max_abs = 0;      // a value beyond
  double loss_factor = 0;  // loss above so many times the ring's mean
  std::int64_t dumps = 4;  // at most so many
};

/// Looks back: keeps the statistics of the last steps, and writes them when a
/// rule fires, as `retro/step{N}.jsonl` (a line a tensor: step, rank, stage,
/// microbatch, direction, name, part, statistics), with `tensors` also the
/// step's tensors as `retro/step{N}.safetensors`. Tensors are held for one
/// step only. An alert tells the rule and the file. Throws `invalid_argument`.
monitor retro_monitor(const retro_options& options, sink_pointer sink);

}  // namespace troupe
