#include "troupe/engine/plan/draw/palette.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace troupe {

op_colour shade_of(plan_op_kind kind, std::size_t chunk, std::size_t chunks) {
  constexpr int darkening = 26;  // of the last stage, in percent
  auto colour = traits_of(kind).colour;
  const auto steps = std::max<std::size_t>(chunks, 2) - 1;
  colour.lightness -=
    darkening * static_cast<int>(chunk) / static_cast<int>(steps);
  return colour;
}

bool takes_dark_text(const op_colour& colour) {
  return colour.lightness >= 56;
}

std::array<double, 3> rgb_of(const op_colour& colour) {
  const auto lightness = colour.lightness / 100.0;
  const auto chroma =
    colour.saturation / 100.0 * std::min(lightness, 1 - lightness);
  const auto channel = [&](double offset) {
    const auto k = std::fmod(offset + colour.hue / 30.0, 12);
    return lightness - chroma * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
  };
  return {channel(0), channel(8), channel(4)};
}

std::string terminal_paint(const op_colour& colour) {
  // Colours 16 to 231 are a cube of these values.
  constexpr std::array levels{0.0,         95 / 255.0,  135 / 255.0,
                              175 / 255.0, 215 / 255.0, 1.0};
  int number = 0;
  for (const auto value : rgb_of(colour)) {
    const auto nearest = std::ranges::min_element(
      levels, {}, [&](double level) { return std::abs(level - value); });
    number = 6 * number + static_cast<int>(nearest - levels.begin());
  }
  return fmt::format("\x1b[38;5;{};48;5;{}m",
                     takes_dark_text(colour) ? 16 : 231, 16 + number);
}

svg_paint paint_of(plan_op_kind kind, std::size_t chunk, std::size_t chunks) {
  const auto colour = shade_of(kind, chunk, chunks);
  const bool dark_text = takes_dark_text(colour);
  return {fmt::format("hsl({},{}%,{}%)", colour.hue, colour.saturation,
                      colour.lightness),
          dark_text ? "#16202b" : "#ffffff",
          fmt::format("hsl({},{}%,{}%)", colour.hue, colour.saturation,
                      dark_text ? 24 : 88)};
}

}  // namespace troupe
