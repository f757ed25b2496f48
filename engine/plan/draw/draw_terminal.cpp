#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

constexpr std::int32_t label_width = 8;

/// Whether a rank has several stages, so that ops must name theirs.
bool names_stages(const timeline& timeline) {
  std::map<std::int32_t, std::int32_t> stages;
  return std::ranges::any_of(timeline.spans, [&](const timeline_span& span) {
    return span.stage != none
           && stages.emplace(span.rank, span.stage).first->second != span.stage;
  });
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
  for (const auto& each :
       {stage + kind + number, with_stage ? stage + kind : number})
    if (each.size() <= room && !each.empty())
      return each;
  return kind;
}

// Columns per unit of time: as many as fit, but no more than the shortest op
// needs for its label.
double columns_per_time(const timeline& timeline, const terminal_style& style) {
  const auto duration = timeline.duration();
  if (!(duration > 0))
    return 0;
  double shortest = duration;
  for (const auto& span : timeline.spans)
    if (span.end > span.start && !is_copy(span.kind))
      shortest = std::min(shortest, span.end - span.start);
  const auto room = std::max(style.width - label_width - 2, 10);
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
  plan_op_kind kind = plan_op_kind::forward;
};

using tiles = std::vector<tile>;

void place(tiles& row, const timeline_span& span, double scale,
           bool with_stage) {
  const auto first = slot(std::lround(span.start * scale));
  const auto last = std::min(row.size(), slot(std::lround(span.end * scale)));
  if (first >= last)
    return;
  const auto label = label_of(span, with_stage, last - first);
  for (auto i = first; i < last; ++i)
    row[i] = {i - first < label.size()             ? label[i - first]
              : span.kind == plan_op_kind::forward ? '-'
                                                   : '=',
              span.kind};
}

std::string glyph(char symbol, const terminal_style& style) {
  const bool fills = symbol == '-' || symbol == '=';
  if (symbol == ' ')
    return style.unicode ? "·" : ".";
  if (fills && style.colour)
    return " ";
  if (fills && style.unicode)
    return symbol == '-' ? "─" : "═";
  return {symbol};
}

std::string render(const tiles& row, const terminal_style& style) {
  std::string text;
  std::string_view current;
  for (const auto& each : row) {
    const auto wanted = style.colour && each.symbol != ' '
                          ? traits_of(each.kind).colour.terminal
                          : std::string_view{};
    if (wanted != current) {
      text += wanted.empty() ? "\x1b[0m" : wanted;
      current = wanted;
    }
    text += glyph(each.symbol, style);
  }
  if (!current.empty())
    text += "\x1b[0m";
  return text;
}

}  // namespace

std::string draw_terminal(const timeline& timeline,
                          const terminal_style& style) {
  const auto scale = columns_per_time(timeline, style);
  const auto width = slot(std::lround(timeline.duration() * scale));
  std::vector<tiles> rows(slot(timeline.ranks), tiles(width));
  const bool with_stage = names_stages(timeline);
  for (const auto& span : timeline.spans)
    if (!is_copy(span.kind))  // beside the ops of the row
      place(rows[slot(span.rank)], span, scale, with_stage);
  std::string text;
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    text += fmt::format("{:<{}}{}\n", fmt::format("rank {}", rank), label_width,
                        render(rows[rank], style));
  return text;
}

}  // namespace troupe
