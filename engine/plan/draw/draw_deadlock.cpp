#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/draw/svg_canvas.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe {

namespace {

constexpr double letter_width = 7.5;

enum class op_state : std::uint8_t { done, standing, posted, ahead };

/// A box of a row: an op, or some that are left out.
struct lane_cell {
  std::uint32_t op = 0;
  std::uint32_t left_out = 0;  // ops, in place of one
  double x = 0;
  double width = 0;
};

/// The ops of one rank that are shown.
struct standing_lane {
  std::vector<lane_cell> cells;
  double before = 0;  // the width of those before the one where it stands

  /// Puts the op at which the lane stands at this place; returns its end.
  double align(double stand_x) {
    auto at = stand_x - before;
    for (auto& each : cells) {
      each.x = at;
      at += each.width;
    }
    return at;
  }
  const lane_cell* find(std::uint32_t op) const {
    const auto found = std::ranges::find_if(cells, [&](const lane_cell& each) {
      return each.left_out == 0 && each.op == op;
    });
    return found == cells.end() ? nullptr : &*found;
  }
};

standing_lane lane_of(const plan& plan, const verdict& found,
                      std::int32_t rank) {
  const auto first = plan.first_op[slot(rank)];
  const auto last = plan.first_op[slot(rank) + 1];
  const auto stands_at = found.stands_at[slot(rank)];
  std::set<std::uint32_t> shown;
  const auto show = [&](std::uint32_t op, std::uint32_t before,
                        std::uint32_t after) {
    for (auto i = std::max(first + before, op) - before;
         i < std::min(op + after + 1, last); ++i)
      shown.insert(i);
  };
  show(stands_at, 4, 2);
  for (const auto& wait : found.cycle)
    for (const auto op : {wait.op, wait.for_op})
      if (plan.rank_of(op) == rank)
        show(op, 1, 1);
  standing_lane result;
  const auto add = [&](const lane_cell& cell) {
    result.before += cell.op < stands_at ? cell.width : 0;
    result.cells.push_back(cell);
  };
  const auto add_gap = [&](std::uint32_t from, std::uint32_t to) {
    if (from < to)
      add({.op = from, .left_out = to - from, .width = 46});
  };
  auto next = first;
  for (const auto op : shown) {
    add_gap(next, op);
    const auto size = static_cast<double>(to_text(plan, op).size());
    add({.op = op, .width = 12 + letter_width * size});
    next = op + 1;
  }
  add_gap(next, last);
  return result;
}

/// Words in lines of at most so many characters.
std::vector<std::string> wrap(const std::string& text, std::size_t most) {
  std::vector<std::string> lines{""};
  for (const auto word : split_words(text)) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > most)
      lines.emplace_back();
    lines.back() += lines.back().empty() ? "" : " ";
    lines.back() += word;
  }
  return lines;
}

class deadlock_drawing {
  static constexpr double left = 72;
  static constexpr double right = 24;
  static constexpr double top = 84;
  static constexpr double row = 28;
  static constexpr double gap = 44;
  static constexpr double line = 18;
  static constexpr double least_width = 720;
  static constexpr std::int32_t all_ranks = 12;  // shown, if no more
  static constexpr std::size_t sentences = 40;   // shown

 public:
  deadlock_drawing(const plan& plan, const verdict& found, svg_theme theme)
    : plan_{plan},
      found_{found},
      posted_{found.posted.begin(), found.posted.end()} {
    choose_rows();
    const auto width = lay_out();
    write_sentences(slot((width - left) / 6.2));
    canvas_.emplace(
      theme, width,
      legend_y() + 40 + line * static_cast<double>(lines_.size()));
  }

  std::string draw() {
    head();
    for (const auto& [rank, window] : windows_)
      lane(rank, window);
    for (std::size_t i = 0; i < std::min(sentences, found_.cycle.size()); ++i)
      arrow(found_.cycle[i], i + 1);
    legend();
    for (std::size_t i = 0; i < lines_.size(); ++i)
      canvas_->text(left, legend_y() + 34 + line * static_cast<double>(i),
                    lines_[i]);
    return canvas_->finish();
  }

 private:
  void choose_rows() {
    for (std::int32_t rank = 0;
         plan_.ranks() <= all_ranks && rank < plan_.ranks(); ++rank)
      windows_.emplace(rank, lane_of(plan_, found_, rank));
    for (const auto& wait : found_.cycle)
      for (const auto op : {wait.op, wait.for_op})
        if (const auto rank = plan_.rank_of(op);
            windows_.size() < 2 * sentences && !windows_.contains(rank))
          windows_.emplace(rank, lane_of(plan_, found_, rank));
    double next = top;
    for (const auto& [rank, window] : windows_) {
      y_[rank] = next;
      next += row + gap;
    }
  }

  // The width of the drawing.
  double lay_out() {
    double before = 0;
    for (const auto& [rank, window] : windows_)
      before = std::max(before, window.before);
    double end = least_width;
    for (auto& [rank, window] : windows_)
      end = std::max(end, window.align(left + before));
    return end + right;
  }

  void write_sentences(std::size_t characters) {
    for (std::size_t i = 0; i < found_.cycle.size(); ++i) {
      if (i == sentences) {
        lines_.push_back(fmt::format("... and {} more waits",
                                     found_.cycle.size() - sentences));
        return;
      }
      for (auto& each :
           wrap(fmt::format("{}. {}", i + 1, found_.cycle[i].text), characters))
        lines_.push_back(std::move(each));
    }
  }

  double legend_y() const {
    return top + static_cast<double>(windows_.size()) * (row + gap) - gap / 2;
  }

  void head() {
    canvas_->text(left, 24, "deadlock: " + plan_.schedule_name, svg_tone::ink,
                  svg_anchor::start, 16);
    std::set<std::int32_t> ranks;
    for (const auto& wait : found_.cycle)
      ranks.insert(wait.rank);
    canvas_->text(
      left, 43,
      fmt::format(
        "{} of {} ranks are in the cycle; rows show {}", ranks.size(),
        plan_.ranks(),
        windows_.size() == slot(plan_.ranks()) ? "all" : "these alone"),
      svg_tone::soft);
  }

  op_state state_of(std::int32_t rank, std::uint32_t op) const {
    const auto stands = found_.stands_at[slot(rank)];
    if (op == stands)
      return op_state::standing;
    if (op > stands)
      return op_state::ahead;
    return posted_.contains(op) ? op_state::posted : op_state::done;
  }

  void lane(std::int32_t rank, const standing_lane& window) {
    const auto from_y = y_.at(rank);
    canvas_->text(left - 10, from_y + row / 2 + 4, fmt::format("rank {}", rank),
                  svg_tone::ink, svg_anchor::end);
    for (const auto& cell : window.cells)
      if (cell.left_out > 0)
        canvas_->text(
          cell.x + cell.width / 2, from_y + row / 2 + 4,
          fmt::format("{} op{}", cell.left_out, cell.left_out == 1 ? "" : "s"),
          svg_tone::soft, svg_anchor::middle);
      else
        box(cell, state_of(rank, cell.op), from_y);
  }

  void box(const lane_cell& cell, op_state state, double from_y) {
    const auto& what = plan_.ops[cell.op];
    const auto paint = paint_of(what.kind, 0, 1);
    frame(cell.x + 1, from_y, cell.width - 2, row, state, paint.fill);
    if (const auto name = to_text(plan_, cell.op);
        state == op_state::done || state == op_state::standing)
      canvas_->add(
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">"
        "{}</text>\n",
        cell.x + cell.width / 2, from_y + row / 2 + 4, paint.ink, name);
    else
      canvas_->text(cell.x + cell.width / 2, from_y + row / 2 + 4, name,
                    svg_tone::soft, svg_anchor::middle);
  }

  void frame(double x, double y, double width, double height, op_state state,
             const std::string& fill) {
    const auto is_filled =
      state == op_state::done || state == op_state::standing;
    const auto stroke =
      state == op_state::done ? "stroke=\"none\""
      : state == op_state::standing
        ? fmt::format("stroke=\"{}\" stroke-width=\"3\"", svg_alarm)
      : state == op_state::posted
        ? fmt::format("stroke=\"{}\" stroke-dasharray=\"4 3\"", svg_alarm)
        : canvas_->tone(svg_tone::grid) + " stroke-dasharray=\"2 2\"";
    canvas_->add(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "fill=\"{}\" {}/>\n",
      x, y, width, height, is_filled ? fill : "none", stroke);
  }

  struct point {
    double x, y;
  };

  // From the op that waits to the one that it waits for; above the row if that
  // is in the same lane.
  void arrow(const wait& wait, std::size_t number) {
    const auto from_rank = plan_.rank_of(wait.op);
    const auto to_rank = plan_.rank_of(wait.for_op);
    if (!windows_.contains(from_rank) || !windows_.contains(to_rank))
      return;
    const auto* from = windows_.at(from_rank).find(wait.op);
    const auto* to = windows_.at(to_rank).find(wait.for_op);
    const auto down = to_rank > from_rank;
    const auto up = to_rank < from_rank;
    const point start{
      from->x + from->width / 2 - (from_rank == to_rank ? 0 : 8),
      y_.at(from_rank) + (down ? row : 0)};
    const point end{to->x + to->width / 2 + (from_rank == to_rank ? 0 : 8),
                    y_.at(to_rank) + (up ? row : 0)};
    const auto bend = down ? gap * 0.7 : -gap * 0.7;
    const auto last_bend = from_rank == to_rank ? bend : -bend;
    curve(start, {start.x, start.y + bend}, {end.x, end.y + last_bend}, end,
          number);
  }

  void curve(point a, point b, point c, point d, std::size_t number) {
    const auto side = c.y < d.y ? -1 : 1;  // from which the head points
    canvas_->add(
      "<path d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\" "
      "fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"/>"
      "<path d=\"M{:.1f} {:.1f}l-4.5 {}h9z\" fill=\"{}\"/>",
      a.x, a.y, b.x, b.y, c.x, c.y, d.x, d.y + side * 6, svg_alarm, d.x, d.y,
      side * 8, svg_alarm);
    // A quarter along the curve, as arrows cross in the middle.
    const point badge{(27 * a.x + 27 * b.x + 9 * c.x + d.x) / 64,
                      (27 * a.y + 27 * b.y + 9 * c.y + d.y) / 64};
    canvas_->add(
      "<circle cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"8\" fill=\"{2}\"/>"
      "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" "
      "fill=\"#ffffff\" font-size=\"11\">{4}</text>\n",
      badge.x, badge.y, svg_alarm, badge.y + 4, number);
  }

  void legend() {
    auto at = left;
    const auto entry = [&](op_state state, std::string_view label) {
      frame(at + 1, legend_y(), 12, 12, state,
            paint_of(plan_op_kind::forward, 0, 1).fill);
      canvas_->text(at + 20, legend_y() + 10.5, label, svg_tone::soft);
      at += 38 + 6.2 * static_cast<double>(label.size());
    };
    entry(op_state::done, "has completed");
    entry(op_state::standing, "the lane is here");
    if (!posted_.empty())
      entry(op_state::posted, "posted, not completed");
    entry(op_state::ahead, "not reached");
  }

  const plan& plan_;
  const verdict& found_;
  std::set<std::uint32_t> posted_;
  std::map<std::int32_t, standing_lane> windows_;
  std::map<std::int32_t, double> y_;
  std::vector<std::string> lines_;
  std::optional<svg_canvas> canvas_;
};

}  // namespace

std::string draw_deadlock(const plan& plan, const verdict& found,
                          svg_theme theme) {
  if (found.progress)
    fail(error_code::invalid_argument,
         "{}: every op completes: there is no deadlock to draw",
         plan.schedule_name);
  return deadlock_drawing{plan, found, theme}.draw();
}

}  // namespace troupe
