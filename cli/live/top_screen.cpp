#include "troupe/cli/live/top_screen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <vector>

#include "troupe/base/median.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/text_columns.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

namespace {

constexpr std::size_t most_values = 18;  // of a curve

void add(std::deque<double>& curve, double value) {
  curve.push_back(value);
  if (curve.size() > most_values)
    curve.pop_front();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

struct key {
  std::string_view bytes;
  int lines = 0, pages = 0;
  bool to_end = false, to_begin = false;
};

constexpr std::array scroll_keys{key{.bytes = "\x1b[A", .lines = -1},
                                 key{.bytes = "\x1b[B", .lines = 1},
                                 key{.bytes = "\x1b[5~", .pages = -1},
                                 key{.bytes = "\x1b[6~", .pages = 1},
                                 key{.bytes = "\x1b[H", .to_begin = true},
                                 key{.bytes = "\x1b[F", .to_end = true},
                                 key{.bytes = "k", .lines = -1},
                                 key{.bytes = "j", .lines = 1},
                                 key{.bytes = "b", .pages = -1},
                                 key{.bytes = " ", .pages = 1},
                                 key{.bytes = "g", .to_begin = true},
                                 key{.bytes = "G", .to_end = true}};

}  // namespace

std::string sparkline(const std::deque<double>& values) {
  constexpr std::array levels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (const auto value : values)
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  std::string text;
  for (const auto value : values) {
    const auto share = high > low ? (value - low) / (high - low) : 0.5;
    text += std::isfinite(value)
              ? levels[static_cast<std::size_t>(std::lround(7 * share))]
              : "!";
  }
  return text;
}

void top_screen::add_step() {
  const auto& step = view_.step();
  if (!step)
    return;
  if (!step->losses.empty())
    add(losses_, step->losses.front().value);
  add(rates_, tokens_per_second(*step));
  if (const auto times = view_.times())
    add(bubbles_, times->bubble);
  const auto steps = step->source.step - last_step_;
  if (last_end_ > 0 && steps > 0)
    add(step_seconds_, static_cast<double>(step->end - last_end_) * 1e-9
                         / static_cast<double>(steps));
  else
    add(step_seconds_, seconds_of(*step));
  last_step_ = step->source.step;
  last_end_ = step->end;
}

double top_screen::seconds_left() const {
  const auto left = view_.steps() - view_.step()->source.step;
  return static_cast<double>(std::max<std::int64_t>(left, 0))
         * median(step_seconds_);
}

std::string top_screen::curves() const {
  if (step_seconds_.empty())
    return {};
  auto text =
    fmt::format("loss {}  tok/s {}", sparkline(losses_), sparkline(rates_));
  if (!bubbles_.empty())
    text += "  bubble " + sparkline(bubbles_);
  return text + "\nETA " + duration_text(seconds_left()) + "\n";
}

bool top_screen::scroll(std::string_view typed) {
  const auto before = first_;
  while (!typed.empty()) {
    const auto found = std::ranges::find_if(scroll_keys, [&](const key& each) {
      return typed.starts_with(each.bytes);
    });
    if (found == scroll_keys.end()) {
      typed.remove_prefix(1);
      continue;
    }
    typed.remove_prefix(found->bytes.size());
    const auto by = found->lines + found->pages * static_cast<int>(page_);
    first_ = found->to_begin ? 0
             : found->to_end ? SIZE_MAX / 2
             : by < 0 ? first_ - std::min(first_, static_cast<std::size_t>(-by))
                      : first_ + static_cast<std::size_t>(by);
  }
  return first_ != before;
}

std::string top_screen::text(std::size_t columns, std::size_t rows) {
  const auto wide = std::max<std::size_t>(columns, 80);
  auto lines = lines_of(plain_text(view_.heading(true, wide)));
  const auto more = lines_of(curves());
  if (view_.step())  // above the titles of the table
    lines.insert(lines.end() - 1, more.begin(), more.end());
  const auto ranks = lines_of(plain_text(view_.rows(true)));
  const auto room = rows > lines.size() ? rows - lines.size() : 1;
  const bool clips = ranks.size() > room;
  page_ = clips ? std::max<std::size_t>(room - 1, 1) : room;
  first_ = std::min(first_, ranks.size() - std::min(page_, ranks.size()));
  const auto last = std::min(first_ + page_, ranks.size());
  lines.insert(lines.end(), ranks.begin() + static_cast<std::ptrdiff_t>(first_),
               ranks.begin() + static_cast<std::ptrdiff_t>(last));
  if (clips)
    lines.push_back(
      fmt::format("rows {} to {} of {}; arrows, space and b scroll; q ends",
                  first_ + 1, last, ranks.size()));
  lines.resize(std::min(lines.size(), rows));
  std::string text = "\033[H";
  for (std::size_t i = 0; i < lines.size(); ++i)
    text += (i > 0 ? "\n" : "") + clipped(lines[i], columns) + "\033[K";
  return text + "\033[J";
}

}  // namespace troupe::cli
