#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "troupe/engine/plan/draw/chunk_table.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/draw/svg_canvas.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

namespace {

constexpr double left = 72;
constexpr double right = 24;
constexpr double top = 62;
constexpr double row = 32;
constexpr double gap = 10;
constexpr double strip_height = 5;
constexpr double least_width = 720;
constexpr double most_width = 4800;
constexpr double legend_line = 22;
constexpr double digit = 6.9;  // width of one in a box

// A round step that gives an axis about ten marks.
double axis_step(double duration) {
  const auto raw = std::max(duration, 1e-9) / 10;
  const auto magnitude = std::pow(10, std::floor(std::log10(raw)));
  for (const auto factor : {1, 2, 5})
    if (factor * magnitude >= raw)
      return factor * magnitude;
  return 10 * magnitude;
}

// Ops beside the compute ops, which would hide them.
bool is_strip(plan_op_kind kind) {
  return traits_of(kind).stream != stream_kind::compute;
}

std::string label_of(const timeline_span& span) {
  if (span.microbatch == none)
    return {};
  return span.slice == none ? std::to_string(span.microbatch)
                            : fmt::format("{}.{}", span.microbatch, span.slice);
}

std::string_view colour_of(wait_kind kind) {
  return kind == wait_kind::host        ? svg_alarm
         : kind == wait_kind::transport ? std::string_view{"#e89b2d"}
                                        : "#8a5fc7";
}

struct legend_entry {
  std::string label;
  std::vector<std::string> swatches;  // one, or a stage's shade each
  std::string outline{};
  double x = 0;
  int line = 0;

  double width() const {
    return 28 + 13.0 * static_cast<double>(swatches.size())
           + 6.4 * static_cast<double>(label.size());
  }
};

// In lines no wider than the drawing.
std::vector<legend_entry> legend_of(const timeline& timeline,
                                    const chunk_table& chunks, double width) {
  std::vector<legend_entry> entries;
  double x = left;
  int line = 0;
  const auto put = [&](legend_entry entry) {
    if (x > left && x + entry.width() > left + width + right) {
      x = left;
      ++line;
    }
    entry.x = x;
    entry.line = line;
    x += entry.width();
    entries.push_back(std::move(entry));
  };
  std::set<plan_op_kind> kinds;
  for (const auto& span : timeline.spans)
    // One entry for both, as they share a colour and a name.
    kinds.insert(span.kind == plan_op_kind::update ? plan_op_kind::gradient_norm
                                                   : span.kind);
  for (const auto kind : kinds) {
    legend_entry entry{std::string{traits_of(kind).name}, {}};
    const auto shades = is_compute(kind) ? chunks.chunks() : 1;
    for (std::size_t chunk = 0; chunk < std::min<std::size_t>(shades, 8);
         ++chunk)
      entry.swatches.push_back(paint_of(kind, chunk, shades).fill);
    put(std::move(entry));
  }
  if (chunks.chunks() > 1)
    put({fmt::format("light to dark: stages 0 to {} of a rank",
                     chunks.chunks() - 1),
         {}});
  if (chunks.has_copies()) {
    const auto paint = paint_of(plan_op_kind::forward, 0, 1);
    put({"outlined: copy 1 of the stage", {paint.fill}, paint.outline});
  }
  if (std::ranges::any_of(timeline.spans, &timeline_span::overlaps_next))
    put({"underlined: an overlapped pair", {}});
  std::set<wait_kind> waits;
  for (const auto& wait : timeline.waits)
    if (wait.kind != wait_kind::bubble)
      waits.insert(wait.kind);
  for (const auto kind : waits)
    put({to_text(kind), {std::string{colour_of(kind)}}});
  return entries;
}

class svg_drawing {
 public:
  svg_drawing(const timeline& timeline, svg_theme theme, std::int32_t width)
    : timeline_{timeline},
      duration_{timeline.duration()},
      width_{width > 0 ? std::max(width - left - right, 1.0) : choose_width()},
      is_numbered_{all_labels_fit()},
      chunks_{timeline},
      legend_{legend_of(timeline, chunks_, width_)},
      canvas_{theme, left + width_ + right,
              y(timeline.ranks) + 50 + legend_height()} {}

  std::string draw() {
    head();
    axis();
    rows();
    for (const auto& wait : timeline_.waits)
      strip(wait);
    boxes();
    for (const auto& mark : timeline_.marks)
      flag(mark);
    for (const auto& entry : legend_)
      show(entry);
    return canvas_.finish();
  }

 private:
  double legend_height() const {
    return legend_.empty() ? 0 : (legend_.back().line + 1) * legend_line;
  }

  // Wide enough for each label in its box, within limits.
  double choose_width() const {
    double pixels = least_width / std::max(duration_, 1e-300);  // of a unit
    for (const auto& span : timeline_.spans)
      if (is_compute(span.kind) && span.end > span.start)
        pixels = std::max(
          pixels, (14 + digit * static_cast<double>(label_of(span).size()))
                    / (span.end - span.start));
    return std::clamp(pixels * duration_, least_width, most_width);
  }

  static double room_for(const std::string& label) {
    return 2 + digit * static_cast<double>(label.size());
  }

  // Slivers aside.
  bool all_labels_fit() const {
    constexpr double sliver = 3;
    return std::ranges::all_of(timeline_.spans, [&](const timeline_span& span) {
      const auto wide = x(span.end) - x(span.start);
      return !is_compute(span.kind) || wide < sliver
             || wide >= room_for(label_of(span));
    });
  }

  double x(double time) const {
    return left + (duration_ > 0 ? time / duration_ * width_ : 0);
  }
  static double y(std::int32_t rank) { return top + rank * (row + gap); }
  double bottom() const { return y(timeline_.ranks) - gap + 6; }

  void head() {
    canvas_.text(left, 24, timeline_.title, svg_tone::ink, svg_anchor::start,
                 16);
    canvas_.text(
      left, 43,
      fmt::format("{}, {} {}, idle {:.1f} %", ranks_text(), duration_text(),
                  timeline_.unit.empty() ? "units" : timeline_.unit,
                  100 * idle()),
      svg_tone::soft);
  }

  std::string ranks_text() const {
    const auto ranks = timeline_.ranks_per_replica();
    const auto text = fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
    return timeline_.replicas == 1
             ? text
             : fmt::format("{} replicas of {}", timeline_.replicas, text);
  }

  // Never with an exponent where people expect none.
  std::string duration_text() const {
    return duration_ > 9999 && duration_ < 1e9
             ? fmt::format("{:.0f}", duration_)
             : fmt::format("{:.4g}", duration_);
  }

  double idle() const {
    std::vector<double> last(slot(timeline_.ranks), 0);
    double busy = 0;
    for (const auto& span : timeline_.spans) {
      if (is_strip(span.kind))
        continue;
      auto& end = last[slot(span.rank)];
      busy += std::max(0.0, span.end - std::max(span.start, end));
      end = std::max(end, span.end);
    }
    return duration_ > 0 ? std::max(0.0, 1 - busy / duration_ / timeline_.ranks)
                         : 0;
  }

  void axis() {
    const auto step = axis_step(duration_);
    for (int i = 0; i * step <= duration_ * 1.0001; ++i) {
      canvas_.add("<path d=\"M{:.1f} {:.1f}V{:.1f}\" {}/>\n", x(i * step),
                  top - 6, bottom(), canvas_.tone(svg_tone::grid));
      canvas_.text(x(i * step), bottom() + 14, fmt::format("{:.6g}", i * step),
                   svg_tone::soft, svg_anchor::middle);
    }
    canvas_.text(
      left + width_, bottom() + 30,
      timeline_.unit.empty() ? "time" : fmt::format("time, {}", timeline_.unit),
      svg_tone::soft, svg_anchor::end);
  }

  void rows() {
    for (std::int32_t rank = 0; rank < timeline_.ranks; ++rank) {
      name_row(rank);
      canvas_.add(
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" {}/>\n", left,
        y(rank), width_, row, canvas_.tone(svg_tone::row));
    }
  }

  void name_row(std::int32_t row_number) {
    const auto ranks = timeline_.ranks_per_replica();
    const auto name = fmt::format("rank {}", row_number % ranks);
    const bool has_replicas = timeline_.replicas > 1;
    const auto middle = y(row_number) + row / 2 + 4;
    if (has_replicas)
      canvas_.text(left - 10, middle - 8,
                   fmt::format("replica {}", row_number / ranks),
                   svg_tone::soft, svg_anchor::end);
    canvas_.text(left - 10, has_replicas ? middle + 8 : middle, name,
                 svg_tone::ink, svg_anchor::end);
  }

  // Along the bottom of the row; a bubble shows the row's background.
  void strip(const timeline_wait& wait) {
    if (wait.kind == wait_kind::bubble)
      return;
    canvas_.add(
      "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"4\" "
      "fill=\"{}\"><title>{}: {:.6g} to {:.6g}</title></rect>\n",
      x(wait.start), y(wait.rank) + row - 4,
      std::max(x(wait.end) - x(wait.start), 0.3), colour_of(wait.kind),
      to_text(wait.kind), wait.start, wait.end);
  }

  void flag(const timeline_mark& mark) {
    canvas_.add(
      "<path d=\"M{:.2f} {:.1f}l-5 -9h10z\" fill=\"{}\"><title>{}</title>"
      "</path>\n",
      x(mark.at), y(mark.rank) + 4, svg_alarm, xml_text(mark.text));
  }

  // Two compute ops of a rank at once: an atomic pair.
  bool are_at_once(const timeline_span& one, const timeline_span& next) const {
    return one.rank == next.rank && is_compute(one.kind)
           && is_compute(next.kind) && next.start < one.end - 1e-9 * duration_;
  }

  void boxes() {
    const auto& spans = timeline_.spans;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      const auto from = y(spans[i].rank);
      if (is_strip(spans[i].kind)) {
        strip(spans[i], from);
      } else if (i + 1 < spans.size() && are_at_once(spans[i], spans[i + 1])) {
        box(spans[i], from, row / 2);
        ++i;
        box(spans[i], from + row / 2, row / 2);
      } else {
        box(spans[i], from, row);
        if (is_pair(i))
          underline(spans[i], spans[i + 1]);
      }
    }
  }

  /// Above the row; offloads and reloads, which run at once, in halves.
  void strip(const timeline_span& span, double row_y) {
    const auto height = is_copy(span.kind) ? strip_height / 2.0 : strip_height;
    const auto above =
      span.kind == plan_op_kind::reload ? height : strip_height;
    box(span, row_y - above - 1, height);
  }

  bool is_pair(std::size_t first) const {
    const auto& spans = timeline_.spans;
    return spans[first].overlaps_next && first + 1 < spans.size()
           && spans[first + 1].rank == spans[first].rank
           && is_compute(spans[first + 1].kind);
  }

  void underline(const timeline_span& one, const timeline_span& next) {
    canvas_.add(
      "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"2\" {}/>\n",
      x(one.start) + 1, y(one.rank) + row + 2, x(next.end) - x(one.start) - 2,
      canvas_.tone(svg_tone::soft));
  }

  void box(const timeline_span& span, double from_y, double height) {
    const auto paint =
      paint_of(span.kind, is_compute(span.kind) ? chunks_.of(span) : 0,
               chunks_.chunks());
    const auto from_x = x(span.start);
    const auto wide = std::max(x(span.end) - from_x, 0.5);
    canvas_.add(
      "<g><title>{}: {:.6g} to {:.6g}</title><rect x=\"{:.2f}\" y=\"{}\" "
      "width=\"{:.2f}\" height=\"{}\" fill=\"{}\" {}/>",
      to_text(span), span.start, span.end, from_x, from_y, wide, height,
      paint.fill, wide > 3 ? canvas_.tone(svg_tone::edge) : "stroke=\"none\"");
    if (span.copy > 0 && wide > 6)
      outline(from_x, from_y, wide, height, paint.outline);
    const auto label = label_of(span);
    if (is_numbered_ && !label.empty() && wide >= room_for(label))
      canvas_.add(
        "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">"
        "{}</text>",
        from_x + wide / 2, from_y + height / 2 + 4.2, paint.ink, label);
    canvas_.add("</g>\n");
  }

  void outline(double from_x, double from_y, double wide, double height,
               const std::string& colour) {
    canvas_.add(
      "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" "
      "fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>",
      from_x + 1.8, from_y + 1.8, wide - 3.6, height - 3.6, colour);
  }

  void show(const legend_entry& entry) {
    const auto line_y = bottom() + 42 + entry.line * legend_line;
    auto at = entry.x;
    for (const auto& fill : entry.swatches) {
      canvas_.add(
        "<rect x=\"{:.1f}\" y=\"{}\" width=\"13\" height=\"13\" "
        "fill=\"{}\"/>",
        at, line_y, fill);
      if (!entry.outline.empty())
        outline(at, line_y, 13, 13, entry.outline);
      at += 13;
    }
    canvas_.text(at + (entry.swatches.empty() ? 0 : 6), line_y + 11,
                 entry.label);
  }

  const timeline& timeline_;
  double duration_;
  double width_;
  bool is_numbered_;
  chunk_table chunks_;
  std::vector<legend_entry> legend_;
  svg_canvas canvas_;
};

}  // namespace

std::string draw_svg(const timeline& timeline, svg_theme theme,
                     std::int32_t width) {
  return svg_drawing{timeline, theme, width}.draw();
}

}  // namespace troupe
