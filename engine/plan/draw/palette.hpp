#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

/// The colour of an op, by its kind (the hue) and by its stage's number among
/// `chunks` stages of its rank (the shade).
op_colour shade_of(plan_op_kind kind, std::size_t chunk, std::size_t chunks);

/// Whether dark text is legible on a colour, else light one.
bool takes_dark_text(const op_colour& colour);

/// Red, green and blue in 0..1, as sRGB encodes them.
std::array<double, 3> rgb_of(const op_colour& colour);

/// The escape sequence of text on a colour, the nearest of a terminal's 256.
std::string terminal_paint(const op_colour& colour);

/// An op's box.
struct svg_paint {
  std::string fill;
  std::string_view ink;  // of the text on it
  std::string outline;   // of the other copy of a stage
};

svg_paint paint_of(plan_op_kind kind, std::size_t chunk, std::size_t chunks);

}  // namespace troupe
