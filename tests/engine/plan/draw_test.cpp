#include "troupe/engine/plan/draw/draw.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using testing::count;

namespace {

timeline picture(std::string_view name, const schedule_shape& shape) {
  const auto of = testing::make_plan(name, shape);
  return to_timeline(of, simulate(of));
}

}  // namespace

TEST_CASE("the terminal shows a row a rank") {
  CHECK(draw_terminal(picture("1f1b", {.ranks = 2, .microbatches = 2}),
                      {.unicode = false})
        == "rank 0  F0-F1-......B0====...B1====\n"
           "rank 1  ...F0-B0====F1-B1====......\n");
}

TEST_CASE("ops of several stages a rank name theirs") {
  const auto of = picture(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 2});
  const auto wide = draw_terminal(of, {.width = 200, .unicode = false});
  for (const auto* op : {"0F0", "1F0", "2F0", "3F1", "0B1", "3B0"})
    CHECK_THAT(wide, ContainsSubstring(op));
  // Too narrow for the microbatch; the rows' order shows it.
  const auto narrow = draw_terminal(of, {.width = 52, .unicode = false});
  for (const auto* op : {"0F", "1F", "2F", "3F", "0B", "2B"})
    CHECK_THAT(narrow, ContainsSubstring(op));
}

TEST_CASE("the terminal tells slices and copies of a stage apart") {
  CHECK(draw_terminal(
          picture("seq_1f1b", {.ranks = 2, .microbatches = 1, .slices = 2}),
          {.unicode = false})
        == "rank 0  F0.0-F0.1-...............B0.1======B0.0======\n"
           "rank 1  .....F0.0-F0.1-B0.1======B0.0======..........\n");
  const auto two = draw_terminal(
    picture("dualpipe", {.ranks = 2, .microbatches = 4}), {.unicode = false});
  for (const auto* op : {"0F0", "0B0", "1f2", "1b3", "1F1", "0I1", "0w3"})
    CHECK_THAT(two, ContainsSubstring(op));
}

TEST_CASE("the terminal's rows keep to its width") {
  const auto drawn =
    draw_terminal(picture("1f1b", {.ranks = 4, .microbatches = 64}),
                  {.width = 80, .unicode = false});
  std::size_t widest = 0;
  for (std::size_t at = 0; at < drawn.size();) {
    const auto end = drawn.find('\n', at);
    widest = std::max(widest, end - at);
    at = end + 1;
  }
  CHECK(widest <= 80);
}

TEST_CASE("the SVG has a box for each op, and is well formed enough") {
  const auto svg = draw_svg(picture(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 4}));
  CHECK_THAT(svg, ContainsSubstring("<svg xmlns"));
  CHECK(count(svg, "<title>") == 32);
  CHECK(count(svg, "<g>") == count(svg, "</g>"));
  CHECK(count(svg, "<text") == count(svg, "</text>"));
  CHECK_THAT(svg, ContainsSubstring("light to dark: stages 0 to 1 of a rank"));
}

TEST_CASE("the SVG's hue is the kind of op, its shade the stage of the rank") {
  const auto svg = draw_svg(
    picture("zb_v", {.ranks = 2, .stages_per_rank = 2, .microbatches = 4}));
  // Ranks x microbatches, plus one in the legend.
  for (const auto* fill :
       {"hsl(212,78%,78%)", "hsl(212,78%,52%)", "hsl(160,52%,64%)",
        "hsl(160,52%,38%)", "hsl(272,46%,68%)", "hsl(272,46%,42%)"})
    CHECK(count(svg, std::string("fill=\"") + fill + "\"") == 8 + 1);
  CHECK_THAT(svg, !ContainsSubstring("outlined"));
}

TEST_CASE("the SVG tells slices and copies of a stage apart") {
  const auto slices =
    draw_svg(picture("seq_1f1b", {.ranks = 2, .microbatches = 1, .slices = 2}));
  CHECK_THAT(slices, ContainsSubstring(">0.1</text>")
                       && ContainsSubstring("<title>1B0.0: ")
                       && !ContainsSubstring("light to dark"));
  const auto copies =
    draw_svg(picture("dualpipe", {.ranks = 2, .microbatches = 4}));
  CHECK_THAT(copies, ContainsSubstring("outlined: copy 1 of the stage")
                       && ContainsSubstring("<title>1F2@1: 1 to 2"));
  // Each op of copy 1, plus the legend.
  CHECK(count(copies, "fill=\"none\" stroke=\"hsl(")
        == count(copies, "@1: ") + 1);
}

TEST_CASE("the SVG shows two ops at once in halves of their row") {
  const auto of =
    testing::make_plan("dualpipe", {.ranks = 2, .microbatches = 4});
  op_costs costs;
  costs.atomic_pairs = true;
  const auto svg = draw_svg(to_timeline(of, simulate(of, costs)));
  const auto pairs = static_cast<std::size_t>(
    std::ranges::count_if(of.ops, &plan_op::overlaps_next));
  CHECK(pairs > 0);
  CHECK(count(draw_svg(to_timeline(of, simulate(of))), "height=\"2\"")
        == pairs);
  CHECK(count(svg, "height=\"16\"") >= 2 * pairs);
}

TEST_CASE("the SVG shows reductions above the ops beside them") {
  const auto of = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 2},
                                     {.data_parallel = 2});
  op_costs costs;
  costs.of_kind[static_cast<std::size_t>(plan_op_kind::reduce)] = 1;
  const auto svg = draw_svg(to_timeline(of, simulate(of, costs)));
  CHECK(count(svg, "REDUCE_GRAD: ") == 2);
  CHECK(count(svg, "height=\"5\"") == 2);
  CHECK_THAT(svg, ContainsSubstring(">reduce</text>"));
}

TEST_CASE("the SVG is light, dark, or as its reader prefers") {
  const auto of = picture("1f1b", {.ranks = 2, .microbatches = 2});
  const auto light = draw_svg(of, svg_theme::light);
  const auto dark = draw_svg(of, svg_theme::dark);
  const auto automatic = draw_svg(of);
  CHECK_THAT(light, ContainsSubstring("fill=\"#ffffff\"/>")
                      && !ContainsSubstring("<style>"));
  CHECK_THAT(dark, ContainsSubstring("fill=\"#12181f\"/>")
                     && !ContainsSubstring("<style>"));
  CHECK_THAT(automatic,
             ContainsSubstring("@media (prefers-color-scheme:dark){.ground{")
               && ContainsSubstring("class=\"ground\" fill=\"#ffffff\"/>"));
  CHECK(draw_svg(of, svg_theme::light) == light);
  CHECK(parse_theme("dark") == svg_theme::dark);
  CHECK_THROWS_MATCHES(
    parse_theme("pink"), error,
    Catch::Matchers::Message(
      "unknown theme 'pink': known themes are auto, light, dark"));
}

TEST_CASE("each microbatch of a long step has room for its number") {
  const auto svg = draw_svg(picture("1f1b", {.ranks = 2, .microbatches = 101}));
  CHECK_THAT(svg, ContainsSubstring(">100</text>"));
}

TEST_CASE("the SVG's legend goes on in further lines") {
  const auto height = [](const std::string& name) {
    const auto svg = draw_svg(
      picture(name, {.ranks = 2, .stages_per_rank = 2, .microbatches = 4}));
    const auto position = svg.find("height=\"") + 8;
    return std::stoi(svg.substr(position));
  };
  CHECK(height("interleaved_1f1b") == 196 + 22);
  CHECK(height("dualpipe_v") == 196 + 2 * 22);
}

TEST_CASE("a measured timeline is drawn alike, in milliseconds") {
  const timeline measured{
    .title = "a < b",
    .unit = "ms",
    .ranks = 1,
    .spans = {{.microbatch = 0, .start = 0, .end = 1.5},
              {.kind = plan_op_kind::update, .start = 1.5, .end = 2}}};
  const auto svg = draw_svg(measured);
  CHECK_THAT(svg, ContainsSubstring("a &lt; b"));
  CHECK_THAT(svg, ContainsSubstring("time, ms"));
  CHECK_THAT(svg, ContainsSubstring("0UPDATE: 1.5 to 2"));
  const timeline slow{.unit = "ms",
                      .spans = {{.microbatch = 0, .start = 0, .end = 41234.5}}};
  CHECK_THAT(draw_svg(slow), ContainsSubstring("1 rank, 41234 ms, idle 0.0 %"));
}

TEST_CASE("the SVG shows control bytes and what is no UTF-8 as their numbers") {
  timeline of{.title = std::string("a\0b\x1b[31m\x7f\xff", 10), .ranks = 1};
  of.marks.push_back({.text = "\x01<\r\n"});
  const auto svg = draw_svg(of);
  CHECK_THAT(svg, ContainsSubstring(">a\\x00b\\x1B[31m\\x7F\\xFF</text>")
                    && ContainsSubstring("\\x01&lt;\\x0D\\x0A"));
  for (const auto c : svg)
    CHECK((c == '\n' || (c >= ' ' && c <= '~')));
}

TEST_CASE("nothing is drawn without a fault") {
  CHECK_FALSE(draw_svg({}).empty());
  CHECK(draw_terminal({}) == "rank 0  \n");
}

TEST_CASE("the trace has threads, events in microseconds, and arrows") {
  const auto of = testing::make_plan("1f1b", {.ranks = 2, .microbatches = 2});
  const auto trace =
    nlohmann::json::parse(draw_trace(to_timeline(of, simulate(of))));
  std::map<std::string, int> phases;
  for (const auto& event : trace["traceEvents"]) {
    ++phases[event["ph"]];
    CHECK(event.contains("pid"));
    CHECK(event.contains("tid"));
  }
  CHECK(phases
        == std::map<std::string, int>{{"M", 3}, {"X", 8}, {"s", 4}, {"f", 4}});
  const auto& first = trace["traceEvents"][3];
  CHECK(first["name"] == "0F0");
  CHECK(first["ts"] == 0);
  CHECK(first["dur"] == 1000);
}

TEST_CASE("names of any bytes are written as JSON") {
  auto of = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 2});
  of.schedule_name = "d\xe9j\xe0 vu";
  CHECK(nlohmann::json::parse(to_json(of)).contains("schedule"));
  auto drawn = to_timeline(of, simulate(of));
  drawn.title = of.schedule_name;
  CHECK(nlohmann::json::parse(draw_trace(drawn)).contains("traceEvents"));
}
