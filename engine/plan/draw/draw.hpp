#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/draw/timeline.hpp"

namespace troupe {

/// The ground and the text of an SVG. Ops have the same colours on both.
enum class svg_theme : std::uint8_t {
  automatic,  // as the reader's system prefers (prefers-color-scheme)
  light,
  dark,
};

/// Parses "auto", "light" or "dark"; throws `error` (invalid_argument).
svg_theme parse_theme(std::string_view name);

/// A self-contained SVG: a row for each rank, time to the right, a box for each
/// op, with its microbatch (and slice: 3.1) where all boxes have room for it.
/// The hue shows the kind of op, the shade which of its rank's stages, an
/// outline the other copy of a stage, a line below an overlapped pair. Two ops
/// at once (an atomic pair) share the height of their row; reductions and
/// gathers are strips above it. With a time axis and a legend; hovering names
/// the op. The same timeline gives the same bytes. `width` is in pixels; 0: as
/// wide as the numbers need, within limits.
std::string draw_svg(const timeline& timeline,
                     svg_theme theme = svg_theme::automatic,
                     std::int32_t width = 0);

/// The counter-example of `verify` as an SVG: lanes up to the ops at which they
/// stand, all in one column, and the ops that are waited for; an arrow for each
/// wait of the cycle, numbered as its sentence below. Long parts of lanes, and
/// ranks outside the cycle if there are many, are left out. Throws `error`
/// (invalid_argument) if the verdict is progress.
std::string draw_deadlock(const plan& plan, const verdict& found,
                          svg_theme theme = svg_theme::automatic);

struct terminal_style {
  std::int32_t width = 100;  // columns
  bool colour = false;       // ANSI escapes
  bool unicode = true;
};

/// A row of cells for each rank, no wider than `width`; each cell shows what
/// the rank mostly does in that time: 2F0, 2f0 for copy 1 of the stage, 2F0.1
/// for slice 1; F0 if each rank has one stage; F alone where an op has less
/// than two columns. Where an op has less than one, some are left out, which a
/// last line says.
std::string draw_terminal(const timeline& timeline, const terminal_style& = {});

/// What its labels mean: lines for stages, copies, slices and halves of
/// backwards, if there are any.
std::string terminal_legend(const timeline& timeline);

/// Chrome and Perfetto trace-event JSON: a process for each replica, in it a
/// thread for each rank and for each other stream of it with transfers, a
/// thread of measured steps, complete events in microseconds, and flow arrows
/// for messages. Waits below 50 us are left out. The arguments of each event
/// have its type, step, stream, device and host time. A unit of a cost model
/// counts as a millisecond.
std::string draw_trace(const timeline& timeline);

}  // namespace troupe
