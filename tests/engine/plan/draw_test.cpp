#include "troupe/engine/plan/draw/draw.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

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

TEST_CASE("ops of less than two columns show their kinds alone") {
  const auto drawn = draw_terminal(
    picture("1f1b", {.ranks = 16, .microbatches = 64}), {.unicode = false});
  const auto row = drawn.substr(0, drawn.find('\n'));
  CHECK(row.size() <= 100);
  CHECK(row.find_first_of("0123456789", 8) == row.npos);
  CHECK_THAT(row, ContainsSubstring("F"));
}

TEST_CASE("rows of several replicas are named by replica and rank") {
  timeline of{.unit = "ms",
              .ranks = 4,
              .replicas = 2,
              .spans = {{.rank = 3, .microbatch = 0, .start = 0, .end = 1}}};
  CHECK_THAT(draw_terminal(of), ContainsSubstring("\nreplica 1 · rank 1 F0"));
  const auto svg = draw_svg(of);
  CHECK_THAT(svg, ContainsSubstring("2 replicas of 2 ranks, 1 ms")
                    && ContainsSubstring(">replica 1</text>"));
  CHECK(count(svg, ">rank 1</text>") == 2);
}

TEST_CASE("either all boxes of an SVG have numbers or none, at any width") {
  const auto of = picture("1f1b", {.ranks = 2, .microbatches = 12});
  const auto numbers = [](const std::string& svg) {
    return count(svg, "text-anchor=\"middle\" fill=\"#16202b\"");
  };
  CHECK(numbers(draw_svg(of)) == 2 * 2 * 12);
  CHECK(numbers(draw_svg(of, svg_theme::automatic, 400)) == 0);
  CHECK_THAT(draw_svg(of, svg_theme::automatic, 400),
             ContainsSubstring(" width=\"400\""));
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
       {"hsl(212,84%,74%)", "hsl(212,84%,48%)", "hsl(140,40%,64%)",
        "hsl(140,40%,38%)", "hsl(325,38%,70%)", "hsl(325,38%,44%)"})
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

TEST_CASE("a trace has a slice for each step, and a process for each replica") {
  timeline of{.title = "t", .unit = "ms", .ranks = 4, .replicas = 2};
  for (std::int64_t step : {7, 8})
    for (std::int32_t row = 0; row < 4; ++row)
      of.spans.push_back({.rank = row,
                          .microbatch = 0,
                          .start = static_cast<double>(step),
                          .end = static_cast<double>(step) + 0.5 + row * 0.1,
                          .step = step});
  of.waits = {{0, wait_kind::host, 0, 0.04}, {3, wait_kind::host, 0, 0.06}};
  std::map<std::string, int> names;
  std::set<int> processes;
  int waits = 0, ops_of_last = 0;
  const auto trace = nlohmann::json::parse(draw_trace(of));
  for (const auto& event : trace.at("traceEvents")) {
    processes.insert(event.at("pid").get<int>());
    if (event.at("ph") == "M")
      ++names[event.at("args").at("name").get<std::string>()];
    waits += event.value("cat", "") == "wait";
    ops_of_last += event.value("cat", "") == "compute" && event.at("pid") == 1
                   && event.at("tid") == 1;
    if (event.at("name") == "step 8") {
      CHECK(event.at("ts").get<double>() == 8000);
      CHECK(std::lround(event.at("dur").get<double>()) == 800);
    }
  }
  CHECK(processes == std::set{0, 1});
  CHECK(names
        == std::map<std::string, int>{{"t, replica 0", 1},
                                      {"t, replica 1", 1},
                                      {"rank 0", 2},
                                      {"rank 1", 2},
                                      {"steps", 1}});
  CHECK(waits == 1);
  CHECK(ops_of_last == 2);
}

TEST_CASE("names of any bytes are written as JSON") {
  auto of = testing::make_plan("gpipe", {.ranks = 2, .microbatches = 2});
  of.schedule_name = "d\xe9j\xe0 vu";
  CHECK(nlohmann::json::parse(to_json(of)).contains("schedule"));
  auto drawn = to_timeline(of, simulate(of));
  drawn.title = of.schedule_name;
  CHECK(nlohmann::json::parse(draw_trace(drawn)).contains("traceEvents"));
}
