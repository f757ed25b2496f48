#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using testing::count;

namespace {

// An arrow is a curve and a head; "stands here" also shows in the legend.
std::size_t arrows(const std::string& svg) {
  return count(svg, "<circle ");
}
std::size_t standing(const std::string& svg) {
  return count(svg, "stroke-width=\"3\"") - 1;
}

std::string drawn(const plan& of, const transport_model& model = {}) {
  const auto verdict = verify(of, model);
  REQUIRE_FALSE(verdict.progress);
  auto svg = draw_deadlock(of, verdict, svg_theme::light);
  CHECK(svg == draw_deadlock(of, verdict, svg_theme::light));
  CHECK(arrows(svg) == verdict.cycle.size());
  for (const auto& wait : verdict.cycle)
    CHECK_THAT(svg, ContainsSubstring(". " + wait.text + "</text>"));
  return svg;
}

constexpr auto early_receive =
  "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";

}  // namespace

TEST_CASE("a rendezvous deadlock is drawn up to where the lanes stand") {
  const auto svg =
    drawn(from_lowered_csv(early_receive), {transport_kind::rendezvous});
  CHECK(arrows(svg) == 2);
  CHECK(standing(svg) == 2);
  CHECK_THAT(svg, ContainsSubstring("deadlock: CSV")
                    && ContainsSubstring("2 of 2 ranks are in the cycle")
                    && !ContainsSubstring(">posted, not completed<"));
}

TEST_CASE("transfers that lanes have passed are drawn as posted") {
  const auto svg =
    drawn(from_lowered_csv(early_receive), {transport_kind::buffered, true});
  CHECK(standing(svg) == 2);
  CHECK(count(svg, "stroke-dasharray=\"4 3\"") == 3 + 1);  // the legend's
  CHECK_THAT(svg, ContainsSubstring(">posted, not completed<"));
}

TEST_CASE("a wait for a credit points at what has not been consumed") {
  const auto of = compile(
    from_text_form("troupe schedule 1\nname late\nmicrobatches 2\nslices 1\n"
                   "placement 0 1 0\nrank 0: 0F0 0F1 2F1 2F0 2B0 2B1 0B0 0B1\n"
                   "rank 1: 1F1 1F0 1B0 1B1\n",
                   "x"),
    {.credits = 1});
  CHECK_THAT(drawn(of, {transport_kind::credited}),
             ContainsSubstring("held by 0F0, which rank 1 has not"));
}

TEST_CASE("lanes that wait for each other are drawn without transfers") {
  const auto svg = drawn(
    lane_plan(from_csv("0F0,0F1,0B0,0F2,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2\n")));
  CHECK(arrows(svg) == 2);
  CHECK_THAT(svg, ContainsSubstring(">0B0</text>")
                    && ContainsSubstring(">1F2</text>")
                    && !ContainsSubstring("SEND"));
}

TEST_CASE("long lanes and ranks outside the cycle are left out") {
  auto lanes = make_schedule("1f1b", {.ranks = 20, .microbatches = 64});
  auto& lane = lanes.lanes[10];
  // A backward precedes a forward that other ranks need for it.
  const auto late = std::ranges::find(
    lane, op{.stage = 10, .microbatch = 45, .kind = op_kind::forward});
  const auto early = std::ranges::find(
    lane, op{.stage = 10, .microbatch = 44, .kind = op_kind::backward});
  REQUIRE(late < early);
  std::rotate(late, late + 1, early + 1);
  const auto svg = drawn(lane_plan(lanes));
  CHECK_THAT(svg, ContainsSubstring(" of 20 ranks are in the cycle; rows show "
                                    "these alone")
                    && ContainsSubstring(" ops</text>"));
  CHECK(svg.size() < 40'000);
}

TEST_CASE("the drawing of a deadlock has themes, and needs a deadlock") {
  const auto of = from_lowered_csv(early_receive);
  const auto verdict = verify(of, {transport_kind::rendezvous});
  CHECK_THAT(draw_deadlock(of, verdict), ContainsSubstring("@media"));
  CHECK_THAT(draw_deadlock(of, verdict, svg_theme::dark),
             ContainsSubstring("#12181f") && !ContainsSubstring("@media"));
  CHECK_THROWS_MATCHES(
    draw_deadlock(of, verify(of)), error,
    Catch::Matchers::Message(
      "CSV: every op completes: there is no deadlock to draw"));
}
