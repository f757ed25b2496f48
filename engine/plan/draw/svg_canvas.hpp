#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/draw/palette.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// A mark whose colour is the theme's.
enum class svg_tone : std::uint8_t {
  ground,  // behind everything
  row,     // where a rank is idle
  grid,    // lines of an axis
  edge,    // between adjacent boxes
  ink,     // main text
  soft,    // other text
};

enum class svg_anchor : std::uint8_t { start, middle, end };

/// The colour of what went wrong, on both grounds.
inline constexpr std::string_view svg_alarm = "#d64545";

/// Text of files and other programs for XML: control characters and bytes that
/// are no ASCII become \xNN.
std::string xml_text(std::string_view text);

/// An SVG that is written from its first mark to its last. Lengths are in CSS
/// pixels, from the upper left corner.
class svg_canvas {
 public:
  svg_canvas(svg_theme theme, double width, double height);

  /// The attributes that give a mark its tone.
  std::string tone(svg_tone which) const;
  void text(double x, double y, std::string_view words,
            svg_tone tone = svg_tone::ink,
            svg_anchor anchor = svg_anchor::start, double size = 12);
  /// Any other marks.
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format,
                   std::forward<Args>(args)...);
  }
  std::string finish();

 private:
  svg_theme theme_;
  std::string text_;
};

}  // namespace troupe
