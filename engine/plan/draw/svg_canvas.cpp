#include "troupe/engine/plan/draw/svg_canvas.hpp"

#include <array>

#include <fmt/format.h>

#include "troupe/base/names.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

struct tone_row {
  std::string_view name;
  std::string_view attribute;
  std::string_view light;
  std::string_view dark;
};

// By svg_tone.
constexpr std::array tones{
  tone_row{"ground", "fill", "#ffffff", "#12181f"},
  tone_row{"row", "fill", "#f1f4f7", "#1d262f"},
  tone_row{"grid", "stroke", "#dde3e9", "#2f3b47"},
  tone_row{"edge", "stroke", "#ffffff", "#12181f"},
  tone_row{"ink", "fill", "#1c2733", "#e8edf2"},
  tone_row{"soft", "fill", "#5b6875", "#96a5b4"},
};

constexpr std::string_view anchors[]{"start", "middle", "end"};

// Attributes give the light colours, which a style overrides where the reader
// prefers dark ones: programs that know no media queries draw the light ones.
std::string dark_style() {
  std::string rules;
  for (const auto& each : tones)
    rules += fmt::format(".{}{{{}:{}}}", each.name, each.attribute, each.dark);
  return fmt::format(
    "<style>@media (prefers-color-scheme:dark){{{}}}</style>\n", rules);
}

}  // namespace

svg_theme parse_theme(std::string_view name) {
  constexpr std::string_view names[]{"auto", "light", "dark"};
  return parse_named<svg_theme>(name, names, "theme");
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (const auto c : printable(text, text.size()))
    result += c == '<'   ? "&lt;"
              : c == '>' ? "&gt;"
              : c == '&' ? "&amp;"
                         : std::string{c};
  return result;
}

svg_canvas::svg_canvas(svg_theme theme, double width, double height)
  : theme_{theme} {
  add(
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} "
    "{1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
    "font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\">\n{2}"
    "<rect width=\"100%\" height=\"100%\" {3}/>\n",
    width, height, theme == svg_theme::automatic ? dark_style() : "",
    tone(svg_tone::ground));
}

std::string svg_canvas::tone(svg_tone which) const {
  const auto& row = tones[slot(which)];
  const auto colour = theme_ == svg_theme::dark ? row.dark : row.light;
  if (theme_ == svg_theme::automatic)
    return fmt::format("class=\"{}\" {}=\"{}\"", row.name, row.attribute,
                       colour);
  return fmt::format("{}=\"{}\"", row.attribute, colour);
}

void svg_canvas::text(double x, double y, std::string_view words,
                      svg_tone which, svg_anchor anchor, double size) {
  add("<text x=\"{:.1f}\" y=\"{:.1f}\" {}", x, y, tone(which));
  if (anchor != svg_anchor::start)
    add(" text-anchor=\"{}\"", anchors[slot(anchor)]);
  if (size != 12)
    add(" font-size=\"{}\" font-weight=\"600\"", size);
  add(">{}</text>\n", xml_text(words));
}

std::string svg_canvas::finish() {
  text_ += "</svg>\n";
  return std::move(text_);
}

}  // namespace troupe
