#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/draw.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

constexpr double left = 72;
constexpr double top = 58;
constexpr double row = 34;
constexpr double gap = 8;
constexpr double least_width = 720;
constexpr double most_width = 4800;
constexpr double legend_line = 22;

struct box_style {
  std::string fill;
  std::string ink;
};

// A hue for each of a rank's stages; the lightness shows the kind of op.
box_style style_of(plan_op_kind kind, std::size_t chunk) {
  constexpr int hues[]{212, 158, 28, 280, 340, 48, 190, 100};
  const auto hue = hues[chunk % std::size(hues)];
  if (!is_compute(kind))
    return {"#8a94a0", "#fff"};
  const auto& colour = traits_of(kind).colour;
  return {
    fmt::format("hsl({},{}%,{}%)", hue, colour.saturation, colour.lightness),
    std::string(colour.ink)};
}

/// Names come from files and other programs; XML takes neither control
/// characters nor bytes that are no UTF-8.
std::string escape(std::string_view text) {
  std::string result;
  for (const auto c : printable(text, text.size()))
    switch (c) {
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '&':
        result += "&amp;";
        break;
      default:
        result += c;
    }
  return result;
}

// A round step that gives an axis about ten marks.
double axis_step(double duration) {
  const auto raw = std::max(duration, 1e-9) / 10;
  const auto magnitude = std::pow(10, std::floor(std::log10(raw)));
  for (const auto factor : {1, 2, 5})
    if (factor * magnitude >= raw)
      return factor * magnitude;
  return 10 * magnitude;
}

class svg_drawing {
 public:
  explicit svg_drawing(const timeline& timeline)
    : timeline_{timeline},
      duration_{timeline.duration()},
      width_{choose_width()} {
    std::map<std::int32_t, std::set<stage_copy>> stages;
    for (const auto& span : timeline.spans)
      stages[span.rank].insert(stage_copy_of(span));
    for (const auto& [rank, held] : stages) {
      std::size_t chunk = 0;
      for (const auto& each : held)
        chunk_[each] = chunk++;
    }
    legend_ = layout_legend();
  }

  std::string draw() {
    begin();
    axis();
    rows();
    for (const auto& wait : timeline_.waits)
      strip(wait);
    for (const auto& span : timeline_.spans)
      box(span);
    for (const auto& mark : timeline_.marks)
      flag(mark);
    legend();
    text_ += "</svg>\n";
    return std::move(text_);
  }

 private:
  // Copy and stage.
  using stage_copy = std::pair<std::int32_t, std::int32_t>;

  static stage_copy stage_copy_of(const timeline_span& span) {
    return {span.copy, span.stage};
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format,
                   std::forward<Args>(args)...);
  }

  // Wide enough for the microbatch in the shortest forward, within limits.
  double choose_width() const {
    double shortest = duration_;
    for (const auto& span : timeline_.spans)
      if (is_compute(span.kind) && span.end > span.start)
        shortest = std::min(shortest, span.end - span.start);
    const auto ideal = shortest > 0 ? 22 * duration_ / shortest : least_width;
    return std::clamp(ideal, least_width, most_width);
  }

  double x(double time) const {
    return left + (duration_ > 0 ? time / duration_ * width_ : 0);
  }
  static double y(std::int32_t rank) { return top + rank * (row + gap); }
  double bottom() const { return y(timeline_.ranks); }

  void begin() {
    add(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "font-family=\"system-ui,sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"26\" font-size=\"16\" font-weight=\"600\" "
      "fill=\"#1c2733\">{3}</text>\n"
      "<text x=\"{2}\" y=\"44\" fill=\"#5b6875\">{4} ranks, {5:.4g} {6}, "
      "idle {7:.1f} %</text>\n",
      left + width_ + 24,
      bottom() + 84 + (legend_.empty() ? 0 : legend_.back().line) * legend_line,
      left, escape(timeline_.title), timeline_.ranks, duration_,
      timeline_.unit.empty() ? "units" : timeline_.unit, 100 * idle());
  }

  double idle() const {
    double busy = 0;
    for (const auto& span : timeline_.spans)
      if (span.kind != plan_op_kind::reduce)
        busy += span.end - span.start;
    return duration_ > 0 ? std::max(0.0, 1 - busy / duration_ / timeline_.ranks)
                         : 0;
  }

  void axis() {
    const auto step = axis_step(duration_);
    for (int i = 0; i * step <= duration_ * 1.0001; ++i)
      add(
        "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"#e3e8ed\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" "
        "fill=\"#5b6875\">{4:.6g}</text>\n",
        x(i * step), top - 6, bottom(), bottom() + 16, i * step);
    add(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" "
      "fill=\"#5b6875\">time{}</text>\n",
      left + width_, bottom() + 34,
      timeline_.unit.empty() ? "" : fmt::format(", {}", timeline_.unit));
  }

  void rows() {
    for (std::int32_t rank = 0; rank < timeline_.ranks; ++rank)
      add(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" "
        "fill=\"#1c2733\">rank {}</text><rect x=\"{}\" y=\"{}\" "
        "width=\"{:.1f}\" height=\"{}\" rx=\"3\" fill=\"#f4f6f8\"/>\n",
        left - 10, y(rank) + row / 2 + 4, rank, left, y(rank), width_, row);
  }

  // Along the bottom of the row; a bubble shows the row's background.
  void strip(const timeline_wait& wait) {
    if (wait.kind == wait_kind::bubble)
      return;
    const auto* fill = wait.kind == wait_kind::host        ? "#d64545"
                       : wait.kind == wait_kind::transport ? "#e89b2d"
                                                           : "#8a5fc7";
    add(
      "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"4\" "
      "fill=\"{}\"><title>{}: {:.6g} to {:.6g}</title></rect>\n",
      x(wait.start), y(wait.rank) + row - 4,
      std::max(x(wait.end) - x(wait.start), 0.3), fill, to_text(wait.kind),
      wait.start, wait.end);
  }

  void flag(const timeline_mark& mark) {
    add(
      "<path d=\"M{0:.2f} {1:.1f}l-5 -9h10z\" fill=\"#d64545\">"
      "<title>{2}</title></path>\n",
      x(mark.at), y(mark.rank) + 4, escape(mark.text));
  }

  void box(const timeline_span& span) {
    const auto style = style_of(span.kind, chunk_[stage_copy_of(span)]);
    const auto begin_x = x(span.start);
    const auto wide = std::max(x(span.end) - begin_x, 0.5);
    add(
      "<g><title>{0}: {1:.6g} to {2:.6g}</title><rect x=\"{3:.2f}\" "
      "y=\"{4}\" width=\"{5:.2f}\" height=\"{6}\" rx=\"2\" fill=\"{7}\" "
      "stroke=\"#fff\" stroke-width=\"{8}\"/>",
      to_text(span), span.start, span.end, begin_x, y(span.rank), wide, row,
      style.fill, wide > 3 ? 1 : 0);
    if (span.microbatch != none && wide >= (span.slice == none ? 9 : 18))
      add(
        "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" "
        "fill=\"{}\">{}</text>",
        begin_x + wide / 2, y(span.rank) + row / 2 + 4, style.ink,
        span.slice == none ? std::to_string(span.microbatch)
                           : fmt::format("{}.{}", span.microbatch, span.slice));
    text_ += "</g>\n";
  }

  struct legend_entry {
    std::string label;
    std::string fill;
    double x = 0;
    int line = 0;
  };

  std::string label_of(plan_op_kind kind, std::size_t chunk,
                       std::int32_t copy) const {
    std::string label{traits_of(kind).name};
    const auto several = [&](auto held) {
      return std::ranges::any_of(chunk_, held);
    };
    if (is_compute(kind)
        && several([](const auto& each) { return each.second > 0; }))
      label += fmt::format(", stage {} of the rank", chunk);
    if (is_compute(kind)
        && several([](const auto& each) { return each.first.first > 0; }))
      label += fmt::format(", copy {}", copy);
    return label;
  }

  // In lines no wider than the drawing.
  std::vector<legend_entry> layout_legend() const {
    // Chunk, kind and copy.
    std::set<std::tuple<std::size_t, plan_op_kind, std::int8_t>> kinds;
    for (const auto& span : timeline_.spans) {
      // One entry for both, as they share a colour and a name.
      const auto kind = span.kind == plan_op_kind::update
                          ? plan_op_kind::gradient_norm
                          : span.kind;
      if (is_compute(kind))
        kinds.emplace(chunk_.at(stage_copy_of(span)), kind, span.copy);
      else
        kinds.emplace(99, kind, std::int8_t{0});
    }
    std::vector<legend_entry> entries;
    double begin_x = left;
    int line = 0;
    for (const auto& [chunk, kind, copy] : kinds) {
      const auto label = label_of(kind, chunk, copy);
      const auto wide = 38 + 6.6 * static_cast<double>(label.size());
      if (begin_x > left && begin_x + wide > left + width_ + 24) {
        begin_x = left;
        ++line;
      }
      entries.push_back({label, style_of(kind, chunk).fill, begin_x, line});
      begin_x += wide;
    }
    return entries;
  }

  void legend() {
    for (const auto& [label, fill, begin_x, line] : legend_) {
      const auto line_y = bottom() + 56 + line * legend_line;
      add(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"14\" height=\"14\" rx=\"2\" "
        "fill=\"{}\"/><text x=\"{:.1f}\" y=\"{}\" fill=\"#1c2733\">{}"
        "</text>\n",
        begin_x, line_y, fill, begin_x + 20, line_y + 11, label);
    }
  }

  const timeline& timeline_;
  double duration_;
  double width_;
  std::map<stage_copy, std::size_t> chunk_;  // within its rank
  std::vector<legend_entry> legend_;
  std::string text_;
};

}  // namespace

std::string draw_svg(const timeline& timeline) {
  return svg_drawing{timeline}.draw();
}

}  // namespace troupe
