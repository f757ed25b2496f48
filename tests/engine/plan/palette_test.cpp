#include "troupe/engine/plan/draw/palette.hpp"

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <troupe_paths.hpp>
#include <vector>

#include "../../files.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

using triple = std::array<double, 3>;
using matrix = std::array<triple, 3>;

/// Colour vision without one kind of cones, on linear light (Machado, Oliveira
/// and Fernandes 2009, severity 1).
constexpr matrix normal{{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}};
constexpr matrix deuteranopia{{{0.367322, 0.860646, -0.227968},
                               {0.280085, 0.672501, 0.047413},
                               {-0.011820, 0.042940, 0.968881}}};
constexpr matrix protanopia{{{0.152286, 1.052583, -0.204868},
                             {0.114503, 0.786281, 0.099216},
                             {-0.003882, -0.048116, 1.051998}}};
/// From linear sRGB to CIE XYZ, relative to its white.
constexpr matrix to_xyz{
  {{0.4124 / 0.95047, 0.3576 / 0.95047, 0.1805 / 0.95047},
   {0.2126, 0.7152, 0.0722},
   {0.0193 / 1.08883, 0.1192 / 1.08883, 0.9505 / 1.08883}}};

triple product(const matrix& by, const triple& of) {
  triple result{};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t i = 0; i < 3; ++i)
      result[row] += by[row][i] * of[i];
  return result;
}

triple linear(triple encoded) {
  for (auto& each : encoded)
    each =
      each <= 0.04045 ? each / 12.92 : std::pow((each + 0.055) / 1.055, 2.4);
  return encoded;
}

/// CIE L*a*b* of a colour as it is seen.
triple seen(const op_colour& colour, const matrix& vision) {
  auto light = product(vision, linear(rgb_of(colour)));
  for (auto& each : light)
    each = std::clamp(each, 0.0, 1.0);
  auto xyz = product(to_xyz, light);
  for (auto& each : xyz)
    each = each > 0.008856 ? std::cbrt(each) : 7.787 * each + 16.0 / 116;
  return {116 * xyz[1] - 16, 500 * (xyz[0] - xyz[1]), 200 * (xyz[1] - xyz[2])};
}

double distance(const op_colour& a, const op_colour& b, const matrix& vision) {
  const auto x = seen(a, vision), y = seen(b, vision);
  return std::hypot(x[0] - y[0], x[1] - y[1], x[2] - y[2]);
}

constexpr std::array kinds{plan_op_kind::forward, plan_op_kind::backward,
                           plan_op_kind::input_backward,
                           plan_op_kind::weight_backward};
constexpr std::array visions{normal, deuteranopia, protanopia};

}  // namespace

TEST_CASE("kinds of ops differ in every shade, also without red and green") {
  constexpr std::size_t stages = 8;
  constexpr double apart = 20;  // a difference that no one overlooks is 10
  for (const auto& vision : visions)
    for (const auto a : kinds)
      for (const auto b : kinds)
        for (std::size_t i = 0; a < b && i < stages; ++i)
          for (std::size_t k = 0; k < stages; ++k)
            CHECK(
              distance(shade_of(a, i, stages), shade_of(b, k, stages), vision)
              > apart);
}

TEST_CASE("shades tell a rank's stages apart, up to four well") {
  for (const auto& vision : visions)
    for (const auto kind : kinds)
      for (std::size_t stage = 1; stage < 4; ++stage)
        CHECK(distance(shade_of(kind, stage, 4), shade_of(kind, stage - 1, 4),
                       vision)
              > 5);
}

TEST_CASE("norms and updates differ from the first shade of each kind") {
  for (const auto& vision : visions)
    for (const auto kind : kinds)
      CHECK(distance(shade_of(kind, 0, 1), plain_colour, vision) > 10);
}

TEST_CASE("a colour is the nearest of a terminal's") {
  CHECK(rgb_of({0, 100, 50}) == triple{1, 0, 0});
  CHECK(rgb_of({240, 100, 50}) == triple{0, 0, 1});
  CHECK(terminal_paint({0, 100, 50}) == "\x1b[38;5;231;48;5;196m");
  CHECK(terminal_paint({0, 0, 100}) == "\x1b[38;5;16;48;5;231m");
}

TEST_CASE("the pages have the palette of the drawings") {
  const auto script =
    testing::content(std::string{TROUPE_SOURCE_DIR} + "/page/base.js");
  for (const auto kind : kinds) {
    const auto& row = traits_of(kind);
    CHECK_THAT(script,
               ContainsSubstring(fmt::format(
                 "{}: [{}, {}, {}, \"{}\"]", row.action, row.colour.hue,
                 row.colour.saturation, row.colour.lightness, row.name)));
  }
  CHECK_THAT(
    script, ContainsSubstring(fmt::format(
              "[{}, {}, {}, \"{}\"]", plain_colour.hue, plain_colour.saturation,
              plain_colour.lightness, traits_of(plan_op_kind::update).name)));
}
