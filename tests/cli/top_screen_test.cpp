#include "troupe/cli/live/top_screen.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t millisecond = 1'000'000;
constexpr std::int32_t ranks = 32;

cli::top_view view_of_job() {
  return {{{"schedule", "1f1b"},
           {"ranks", ranks},
           {"stages", ranks},
           {"microbatches", 2},
           {"messages", 4},
           {"steps", 100},
           {"step", 0},
           {"pid", 17}},
          std::nullopt};
}

void end_step(cli::top_view& view, std::int64_t number) {
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    event_source source;
    source.step = number;
    source.rank = rank;
    view.add(
      ops_event{source, {{0, 0, 0, 10 * millisecond, 40 * millisecond}}});
  }
  step_event step;
  step.source.step = number;
  step.begin = (number - 1) * 500 * millisecond;
  step.end = number * 500 * millisecond;
  step.losses = {{"loss", 10.0 / static_cast<double>(number), 1}};
  step.tokens = 100;
  REQUIRE(view.add(step));
}

std::ptrdiff_t line_count(const std::string& text) {
  return std::ranges::count(text, '\n') + 1;
}

}  // namespace

TEST_CASE("top keeps its head on a small terminal, and scrolls the ranks") {
  auto view = view_of_job();
  cli::top_screen screen(view);
  CHECK_THAT(screen.text(80, 24), ContainsSubstring("waiting for the next"));
  for (std::int64_t step = 1; step <= 4; ++step) {
    end_step(view, step);
    screen.add_step();
  }
  const auto first = screen.text(80, 24);
  CHECK(line_count(first) == 24);
  CHECK_THAT(first, ContainsSubstring("1f1b: 32 ranks")
                      && ContainsSubstring("step 4/100 loss 2.5")
                      && ContainsSubstring("rep rank  busy")
                      && ContainsSubstring("\n  0    0 ")
                      && !ContainsSubstring("\n  0   31 ")
                      && ContainsSubstring("rows 1 to "));
  CHECK_THAT(first,
             ContainsSubstring("loss █") && ContainsSubstring("ETA 0:48"));
  CHECK_THAT(first, !ContainsSubstring(" messages in flight"));
  CHECK_THAT(screen.text(200, 24), ContainsSubstring(" messages in flight"));
  CHECK(screen.scroll("G"));
  const auto last = screen.text(80, 24);
  CHECK_THAT(last, ContainsSubstring("1f1b: 32 ranks")
                     && ContainsSubstring("\n  0   31 ")
                     && !ContainsSubstring("\n  0    0 ")
                     && ContainsSubstring(" of 32; "));
  CHECK(screen.scroll("\x1b[A"));
  CHECK_THAT(screen.text(80, 24), !ContainsSubstring("\n  0   31 "));
  CHECK(screen.scroll("g"));
  CHECK_FALSE(screen.scroll("x\x1b[A"));
  CHECK(screen.text(80, 24) == first);
  CHECK_THAT(screen.text(80, 60), ContainsSubstring("\n  0   31 ")
                                    && !ContainsSubstring("rows 1 to "));
}

TEST_CASE("top clips lines that are wider than the terminal") {
  auto view = view_of_job();
  cli::top_screen screen(view);
  end_step(view, 1);
  screen.add_step();
  const auto text = screen.text(30, 10);
  std::size_t from = 0;
  while (from < text.size()) {
    const auto end = std::min(text.find('\n', from), text.size());
    const auto escape = text.find("\033[K", from);
    const auto begin = text.compare(from, 3, "\033[H") == 0 ? from + 3 : from;
    CHECK(std::count_if(text.begin() + static_cast<std::ptrdiff_t>(begin),
                        text.begin() + static_cast<std::ptrdiff_t>(escape),
                        [](char c) { return (c & 0xC0) != 0x80; })
          <= 30);
    from = end + 1;
  }
  CHECK(line_count(text) <= 10);
}

TEST_CASE("a sparkline goes from the least to the largest value") {
  CHECK(cli::sparkline({1, 2, 8}) == "▁▂█");
  CHECK(cli::sparkline({3, 3}) == "▅▅");
  CHECK(cli::sparkline({1, HUGE_VAL, 2}) == "▁!█");
  CHECK(cli::sparkline({}).empty());
}
