#pragma once

#include <cstdint>
#include <string>

#include "troupe/engine/plan/timeline.hpp"

namespace troupe {

/// A self-contained SVG: a row for each rank, a box for each op with its
/// microbatch (and slice: 3.1), one hue for each of a rank's stages and copies
/// of stages (forwards light, backwards dark), a time axis and a legend.
/// Hovering names the op.
std::string draw_svg(const timeline& timeline);

struct terminal_style {
  std::int32_t width = 100;  // columns
  bool colour = false;       // ANSI escapes
  bool unicode = true;
};

/// A row of cells for each rank, no wider than `width`; each cell shows what
/// the rank mostly does in that time: 2F0, 2f0 for copy 1 of the stage, 2F0.1
/// for slice 1; F0 if each rank has one stage.
std::string draw_terminal(const timeline& timeline, const terminal_style& = {});

/// Chrome and Perfetto trace-event JSON: a thread for each rank and for each
/// other stream of it with transfers, complete events in microseconds, and flow
/// arrows for messages. The arguments of each event have its type, step,
/// stream, device and host time. A unit of a cost model counts as a
/// millisecond.
std::string draw_trace(const timeline& timeline);

}  // namespace troupe
