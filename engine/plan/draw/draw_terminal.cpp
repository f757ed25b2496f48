#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/base/text_columns.hpp"
#include "troupe/engine/plan/draw/chunk_table.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/draw/palette.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

/// Whether a rank has several stages, so that ops must name theirs.
bool names_stages(const timeline& timeline) {
  std::map<std::int32_t, std::int32_t> stages;
  return std::ranges::any_of(timeline.spans, [&](const timeline_span& span) {
    return span.stage != none
           && stages.emplace(span.rank, span.stage).first->second != span.stage;
  });
}

/// "rank 0", or "replica 0 · rank 0" if there are several, and blanks.
std::vector<std::string> row_labels(const timeline& timeline, bool unicode) {
  constexpr std::size_t least_width = 8;
  const auto ranks = timeline.ranks_per_replica();
  const auto* point = unicode ? "·" : "-";
  std::vector<std::string> labels;
  std::size_t width = least_width;
  for (std::int32_t row = 0; row < timeline.ranks; ++row) {
    const auto rank = fmt::format("rank {}", row % ranks);
    labels.push_back(
      timeline.replicas == 1
        ? rank
        : fmt::format("replica {} {} {}", row / ranks, point, rank));
    width = std::max(width, columns_of(labels.back()) + 1);
  }
  for (auto& label : labels)
    label.append(width - columns_of(label), ' ');
  return labels;
}

/// 2F0, or as much as fits: stage and kind take precedence over microbatch, and
/// kind over stage. 2f0 is of the other copy of the stage, 2F0.1 of a slice.
std::string label_of(const timeline_span& span, bool with_stage,
                     std::size_t room) {
  auto kind = std::string(1, traits_of(span.kind).letter);
  if (span.copy != 0)
    kind[0] = static_cast<char>(kind[0] - 'A' + 'a');
  auto number = span.microbatch == none ? "" : std::to_string(span.microbatch);
  if (span.slice != none)
    number += fmt::format(".{}", span.slice);
  const auto stage =
    with_stage && span.stage != none ? std::to_string(span.stage) : "";
  for (const auto& each : {stage + kind + number, stage + kind})
    if (each.size() <= room)
      return each;
  return kind;
}

double shortest_op(const timeline& timeline) {
  auto shortest = timeline.duration();
  for (const auto& span : timeline.spans)
    if (span.end > span.start && !is_copy(span.kind))
      shortest = std::min(shortest, span.end - span.start);
  return shortest;
}

std::int32_t columns_beside(std::size_t label_width) {
  return static_cast<std::int32_t>(label_width) + 2;
}

// Columns per unit of time: as many as fit, but no more than the shortest op
// needs for its label.
double columns_per_time(const timeline& timeline, const terminal_style& style,
                        std::size_t label_width) {
  const auto duration = timeline.duration();
  if (!(duration > 0))
    return 0;
  const auto shortest = shortest_op(timeline);
  const auto room = std::max(style.width - columns_beside(label_width), 10);
  const auto fit = room / duration;
  const bool slices = std::ranges::any_of(
    timeline.spans, [](const auto& span) { return span.slice != none; });
  const auto comfortable =
    ((names_stages(timeline) ? 5 : 3) + (slices ? 2 : 0)) / shortest;
  // Whole columns for each op if possible.
  const auto whole = std::floor(fit * shortest) / shortest;
  return std::min(comfortable, whole > 0 ? whole : fit);
}

struct tile {
  char symbol = ' ';
  std::uint16_t paint = 0;  // its number among those of the drawing
};

using tiles = std::vector<tile>;

/// What all rows of a drawing have in common.
class drawing_style {
 public:
  drawing_style(const timeline& timeline, const terminal_style& style,
                double scale)
    : style_(style),
      scale_(scale),
      with_stage_(names_stages(timeline)),
      is_numbered_(shortest_op(timeline) * scale >= 2),
      chunks_(timeline) {}

  void place(tiles& row, const timeline_span& span) {
    const auto first = slot(std::lround(span.start * scale_));
    const auto last =
      std::min(row.size(), slot(std::lround(span.end * scale_)));
    if (first >= last)
      return;
    const auto label = is_numbered_ ? label_of(span, with_stage_, last - first)
                                    : label_of(span, false, 1);
    const auto paint = paint_number(span);
    for (auto i = first; i < last; ++i)
      row[i] = {i - first < label.size()             ? label[i - first]
                : span.kind == plan_op_kind::forward ? '-'
                                                     : '=',
                paint};
  }

  std::string render(const tiles& row) const {
    constexpr std::uint16_t none = UINT16_MAX;
    std::string text;
    auto current = none;
    for (const auto& each : row) {
      const auto wanted =
        style_.colour && each.symbol != ' ' ? each.paint : none;
      if (wanted != current) {
        text += wanted == none ? "\x1b[0m" : paints_[wanted];
        current = wanted;
      }
      text += glyph(each.symbol);
    }
    return current == none ? text : text + "\x1b[0m";
  }

 private:
  std::uint16_t paint_number(const timeline_span& span) {
    const auto paint = terminal_paint(
      shade_of(span.kind, is_compute(span.kind) ? chunks_.of(span) : 0,
               chunks_.chunks()));
    const auto entry = std::ranges::find(paints_, paint);
    const auto number = static_cast<std::uint16_t>(entry - paints_.begin());
    if (entry == paints_.end())
      paints_.push_back(paint);
    return number;
  }

  std::string glyph(char symbol) const {
    const bool fills = symbol == '-' || symbol == '=';
    if (symbol == ' ')
      return style_.unicode ? "·" : ".";
    if (fills && style_.colour)
      return " ";
    if (fills && style_.unicode)
      return symbol == '-' ? "─" : "═";
    return {symbol};
  }

  const terminal_style& style_;
  double scale_;
  bool with_stage_;
  bool is_numbered_;
  chunk_table chunks_;
  std::vector<std::string> paints_{};
};

}  // namespace

namespace {

/// Says that ops are left out, if any are, and which width shows them all.
std::string left_out_text(const timeline& timeline, double scale,
                          std::size_t label_width) {
  const auto shortest = shortest_op(timeline);
  const auto needed = timeline.duration() / shortest;
  if (!(shortest > 0) || scale * shortest > 0.999 || needed > 9000)
    return {};
  return fmt::format(
    "some ops are left out; a width of {} shows all\n",
    std::lround(std::ceil(needed)) + columns_beside(label_width));
}

}  // namespace

std::string draw_terminal(const timeline& timeline,
                          const terminal_style& style) {
  const auto labels = row_labels(timeline, style.unicode);
  const auto label_width = labels.empty() ? 0 : columns_of(labels.front());
  const auto scale = columns_per_time(timeline, style, label_width);
  const auto width = slot(std::lround(timeline.duration() * scale));
  std::vector<tiles> rows(slot(timeline.ranks), tiles(width));
  drawing_style drawing(timeline, style, scale);
  for (const auto& span : timeline.spans)
    if (!is_copy(span.kind))  // beside the ops of the row
      drawing.place(rows[slot(span.rank)], span);
  std::string text;
  for (std::size_t row = 0; row < rows.size(); ++row)
    text += labels[row] + drawing.render(rows[row]) + '\n';
  return text + left_out_text(timeline, scale, label_width);
}

std::string terminal_legend(const timeline& timeline) {
  const auto any = [&](const auto& is_one) {
    return std::ranges::any_of(timeline.spans, is_one);
  };
  std::string text;
  if (names_stages(timeline))
    text += "2F0 is F of microbatch 0 on stage 2\n";
  if (any([](const timeline_span& span) { return span.slice != none; }))
    text += "F0.1 is F of slice 1 of microbatch 0\n";
  if (any([](const timeline_span& span) { return span.copy != 0; }))
    text += "lower case is copy 1 of a stage\n";
  if (any([](const timeline_span& span) {
        return span.kind == plan_op_kind::weight_backward;
      }))
    text += "I and W are the halves of a backward: for inputs, for weights\n";
  return text;
}

}  // namespace troupe
