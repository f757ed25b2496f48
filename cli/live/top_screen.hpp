#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "troupe/cli/live/top_view.hpp"

namespace troupe::cli {

/// `troupe top` in a terminal: the head stays, the ranks scroll below it.
class top_screen {
 public:
  explicit top_screen(const top_view& view) : view_(view) {}

  /// Adds the view's step to the curves and to the estimate of the time left.
  void add_step();
  /// Takes keys: arrows, j and k, space and b, g and G, page up and down.
  /// Returns whether they scroll.
  bool scroll(std::string_view typed);
  /// Lines that fill no more than this terminal, for drawing in place.
  std::string text(std::size_t columns, std::size_t rows);

 private:
  using curve = std::deque<double>;  // of the last views

  std::string curves() const;
  double seconds_left() const;

  const top_view& view_;
  curve losses_{}, rates_{}, bubbles_{}, step_seconds_{};
  std::int64_t last_step_ = 0, last_end_ = 0;  // ns
  std::size_t first_ = 0;                      // of the ranks' rows
  std::size_t page_ = 1;                       // rows that are shown
};

/// A character for each value, from the least (low) to the largest (high).
std::string sparkline(const std::deque<double>& values);

}  // namespace troupe::cli
