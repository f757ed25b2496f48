// The figures that every built-in schedule must have for all shapes.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

using namespace troupe;

namespace {

struct shape_result {
  schedule_shape shape;
  plan of;
  simulation times;
};

// Calls `check` for every shape of a schedule.
template <class Check>
void for_all_shapes(std::string_view name, Check check,
                    const op_costs& costs = {}) {
  const auto row =
    std::ranges::find(builtin_schedules(), name, &builtin_schedule::name);
  testing::for_all_shapes([&](const schedule_shape& shape) {
    if (!testing::takes(*row, shape))
      return;
    const auto of = testing::make_plan(name, shape);
    INFO(name << " P " << shape.ranks << " V " << shape.stages_per_rank << " m "
              << shape.microbatches << " slices " << shape.slices);
    check(shape_result{shape, of, simulate(of, costs)});
  });
}

double closed_form(const schedule_shape& shape) {
  const double fill = shape.ranks - 1;
  return fill / (shape.stages_per_rank * shape.microbatches + fill);
}

// One assertion per shape keeps thousands of shapes fast.
bool near(double a, double b) {
  return std::abs(a - b) < 1e-12;
}

bool idle_is_closed_form(const shape_result& of) {
  return near(of.times.bubble, closed_form(of.shape))
         && std::all_of(
           of.times.idle.begin(), of.times.idle.end(),
           [&](auto idle) { return near(idle, closed_form(of.shape)); });
}

template <class Figure>
bool in_flight_is(const shape_result& of, Figure figure) {
  for (std::int32_t rank = 0; rank < of.shape.ranks; ++rank)
    if (of.times.in_flight[static_cast<std::size_t>(rank)]
        != std::min(figure(of.shape, rank),
                    of.shape.stages_per_rank * of.shape.microbatches))
      return false;
  return true;
}

}  // namespace

TEST_CASE("every built-in makes progress under every transport") {
  for (const auto& row : builtin_schedules())
    for_all_shapes(row.name, [](const shape_result& of) {
      for (const auto& model : testing::all_transports)
        if (const auto verdict = verify(of.of, model); !verdict.progress)
          FAIL(verdict.text());
    });
}

TEST_CASE("gpipe: idle (P-1)/(m+P-1), in flight m") {
  for_all_shapes("gpipe", [](const shape_result& of) {
    REQUIRE(idle_is_closed_form(of));
    REQUIRE(in_flight_is(of, [](auto& s, auto) { return s.microbatches; }));
  });
}

TEST_CASE("1f1b: idle (P-1)/(m+P-1), in flight min(P-r, m)") {
  for_all_shapes("1f1b", [](const shape_result& of) {
    REQUIRE(idle_is_closed_form(of));
    REQUIRE(in_flight_is(of, [](auto& s, auto r) { return s.ranks - r; }));
    REQUIRE(near(of.times.period, of.times.makespan));
  });
}

TEST_CASE("eager_1f1b: idle (P-1)/(m+P-1), in flight min(2(P-r)-1, m)") {
  for_all_shapes("eager_1f1b", [](const shape_result& of) {
    REQUIRE(idle_is_closed_form(of));
    REQUIRE(
      in_flight_is(of, [](auto& s, auto r) { return 2 * (s.ranks - r) - 1; }));
  });
}

TEST_CASE("eager_1f1b hides messages that hold 1f1b up") {
  const schedule_shape shape{.ranks = 4, .microbatches = 16};
  const op_costs costs{.message = 0.5};
  CHECK(simulate(testing::make_plan("eager_1f1b", shape), costs).makespan
        < simulate(testing::make_plan("1f1b", shape), costs).makespan);
}

TEST_CASE("interleaved_1f1b: idle (P-1)/(V m+P-1) for m >= P") {
  for_all_shapes("interleaved_1f1b", [](const shape_result& of) {
    if (of.shape.microbatches >= of.shape.ranks)
      REQUIRE(idle_is_closed_form(of));
  });
}

TEST_CASE("breadth_first: idle (P-1)/(V m+P-1) for m >= P, in flight V m") {
  for_all_shapes("breadth_first", [](const shape_result& of) {
    if (of.shape.microbatches >= of.shape.ranks)
      REQUIRE(idle_is_closed_form(of));
    REQUIRE(in_flight_is(
      of, [](auto& s, auto) { return s.stages_per_rank * s.microbatches; }));
  });
}

TEST_CASE("depth_first: in flight V times the breadth") {
  for_all_shapes("depth_first", [](const shape_result& of) {
    REQUIRE(in_flight_is(
      of, [](auto& s, auto) { return s.stages_per_rank * s.ranks; }));
  });
}

TEST_CASE("forward_only: makespan V m + P-1 for m >= P") {
  for_all_shapes("forward_only", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    if (m >= ranks)
      REQUIRE(of.times.makespan == stages * m + ranks - 1);
  });
}

TEST_CASE("sends never wait where each channel has its bound in credits") {
  for_all_shapes("interleaved_1f1b", [](const shape_result& of) {
    for (const auto& to : of.of.channels) {
      REQUIRE(to.bound >= 1);
      REQUIRE(to.bound <= to.messages);
    }
  });
}

namespace {

std::int32_t most_in_flight(const shape_result& of) {
  return std::ranges::max(of.times.in_flight);
}

}  // namespace

TEST_CASE("zb_h1: makespan 3m + P-1 + max(0, P-m), in flight min(P, m)") {
  for_all_shapes("zb_h1", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    REQUIRE(of.times.makespan == 3 * m + ranks - 1 + std::max(0, ranks - m));
    REQUIRE(in_flight_is(of, [](auto& s, auto) { return s.ranks; }));
  });
}

TEST_CASE("zb_h2: period 3m for m >= 2P-1, in flight min(2P-1, m)") {
  for_all_shapes("zb_h2", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    if (m >= 2 * ranks - 1) {
      REQUIRE(of.times.makespan == 3 * m + ranks - 1);
      REQUIRE(of.times.period == 3 * m);
      REQUIRE(of.times.span_bubble == 0);
    }
    REQUIRE(in_flight_is(of, [](auto& s, auto) { return 2 * s.ranks - 1; }));
  });
}

TEST_CASE("interleaved_zb: makespan 3Vm + P-1 for m >= P") {
  for_all_shapes("interleaved_zb", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    if (m >= ranks)
      REQUIRE(of.times.makespan == 3 * stages * m + ranks - 1);
  });
}

TEST_CASE("zb_v: makespan 6m + P-1 and period 6m for m >= 2P-1, in flight 2P") {
  for_all_shapes("zb_v", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    if (m >= 2 * ranks - 1) {
      REQUIRE(of.times.makespan == 6 * m + ranks - 1);
      REQUIRE(of.times.period == 6 * m);
    }
    REQUIRE(most_in_flight(of) <= 2 * ranks);
  });
}

TEST_CASE("v_half: at most 6m + 3P for m >= 2P, and half the memory of 1f1b") {
  for_all_shapes("v_half", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    if (m >= 2 * ranks)
      REQUIRE(of.times.makespan <= 6 * m + 3 * ranks);
    REQUIRE(most_in_flight(of) <= 2 * ((ranks + 2) / 2));
  });
}

TEST_CASE("v_min: at most 6m + 4P for m >= 2P, and a third of the memory") {
  for_all_shapes("v_min", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    if (m >= 2 * ranks)
      REQUIRE(of.times.makespan <= 6 * m + 4 * ranks);
    REQUIRE(most_in_flight(of) <= 2 * ((ranks + 4) / 3));
  });
}

TEST_CASE("dualpipe_v: makespan 6m + P-1, in flight 2P+1") {
  for_all_shapes("dualpipe_v", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    REQUIRE(of.times.makespan == 6 * m + ranks - 1);
    REQUIRE(most_in_flight(of) <= 2 * ranks + 1);
  });
}

TEST_CASE("dualpipe: makespan 3m + P-2 with pairs of 3, in flight P+1") {
  const op_costs pairs{.atomic_pairs = true};
  for_all_shapes(
    "dualpipe",
    [](const shape_result& of) {
      const auto [ranks, stages, m, breadth, slices] = of.shape;
      REQUIRE(of.times.makespan == 3 * m + ranks - 2);
      REQUIRE(most_in_flight(of) <= ranks + 1);
    },
    pairs);
}

TEST_CASE("seq_1f1b: idle (P-1)/(K m+P-1), in flight min(P-r+K-1, K m)") {
  for_all_shapes("seq_1f1b", [](const shape_result& of) {
    const auto units = of.shape.slices * of.shape.microbatches;
    const double fill = of.shape.ranks - 1;
    REQUIRE(near(of.times.bubble, fill / (units + fill)));
    for (std::int32_t rank = 0; rank < of.shape.ranks; ++rank)
      REQUIRE(of.times.in_flight[static_cast<std::size_t>(rank)]
              == std::min(of.shape.ranks - rank + of.shape.slices - 1, units));
  });
}

TEST_CASE("hanayo: idle (P-1)/(V m+P-1) once 2P-1 microbatches fill a wave") {
  for_all_shapes("hanayo", [](const shape_result& of) {
    const auto [ranks, stages, m, breadth, slices] = of.shape;
    const double fill = ranks - 1;
    if (m >= (stages == 2 ? 2 * ranks - 1 : 3 * ranks))
      REQUIRE(idle_is_closed_form(of));
    if (m == ranks)
      REQUIRE(of.times.bubble
              <= 2 * fill / (1.5 * ranks * stages + fill) + 1e-12);
    REQUIRE(2 * most_in_flight(of) <= 3 * ranks * stages);
  });
}
