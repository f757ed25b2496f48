// The figures that every built-in schedule must have, over all shapes.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "support.hpp"
#include "troupe/engine/plan/simulate.hpp"

using namespace troupe;

namespace {

struct shape_result {
  schedule_shape shape;
  plan of;
  simulation times;
};

// Calls `check` for P in 1..8, m in 1..3P+1 and each V of a schedule.
template <class Check>
void for_all_shapes(std::string_view name, std::int32_t most_stages,
                    Check check) {
  for (std::int32_t ranks = 1; ranks <= 8; ++ranks)
    for (std::int32_t stages = 1; stages <= most_stages; ++stages)
      for (std::int32_t m = 1; m <= 3 * ranks + 1; ++m) {
        const schedule_shape shape{
          .ranks = ranks, .stages_per_rank = stages, .microbatches = m};
        const auto of = testing::make_plan(name, shape);
        INFO(name << " P " << ranks << " V " << stages << " m " << m);
        check(shape_result{shape, of, simulate(of)});
      }
}

double closed_form(const schedule_shape& shape) {
  const double fill = shape.ranks - 1;
  return fill / (shape.stages_per_rank * shape.microbatches + fill);
}

// One assertion a shape keeps thousands of shapes fast.
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
    for_all_shapes(row.name, std::min(row.most_stages_per_rank, 3),
                   [](const shape_result& of) {
                     for (const auto& model : testing::all_transports)
                       if (const auto found = verify(of.of, model);
                           !found.progress)
                         FAIL(found.text());
                   });
}

TEST_CASE("gpipe: idle (P-1)/(m+P-1), in flight m") {
  for_all_shapes("gpipe", 1, [](const shape_result& of) {
    REQUIRE(idle_is_closed_form(of));
    REQUIRE(in_flight_is(of, [](auto& s, auto) { return s.microbatches; }));
  });
}

TEST_CASE("1f1b: idle (P-1)/(m+P-1), in flight min(P-r, m)") {
  for_all_shapes("1f1b", 1, [](const shape_result& of) {
    REQUIRE(idle_is_closed_form(of));
    REQUIRE(in_flight_is(of, [](auto& s, auto r) { return s.ranks - r; }));
    REQUIRE(near(of.times.period, of.times.makespan));
  });
}

TEST_CASE("eager_1f1b: in flight min(2(P-r)-1, m)") {
  for_all_shapes("eager_1f1b", 1, [](const shape_result& of) {
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
  for_all_shapes("interleaved_1f1b", 3, [](const shape_result& of) {
    if (of.shape.microbatches >= of.shape.ranks)
      REQUIRE(idle_is_closed_form(of));
  });
}

TEST_CASE("breadth_first: idle (P-1)/(V m+P-1) for m >= P, in flight V m") {
  for_all_shapes("breadth_first", 3, [](const shape_result& of) {
    if (of.shape.microbatches >= of.shape.ranks)
      REQUIRE(idle_is_closed_form(of));
    REQUIRE(in_flight_is(
      of, [](auto& s, auto) { return s.stages_per_rank * s.microbatches; }));
  });
}

TEST_CASE("sends never wait where each channel has its bound in credits") {
  for_all_shapes("interleaved_1f1b", 3, [](const shape_result& of) {
    for (const auto& to : of.of.channels) {
      REQUIRE(to.bound >= 1);
      REQUIRE(to.bound <= to.messages);
    }
  });
}
