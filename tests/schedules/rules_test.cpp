#include "troupe/schedules/rules.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/error.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;

TEST_CASE("backwards first within a limit of P - r is 1f1b") {
  const auto ranks = GENERATE(range(1, 6));
  const auto microbatches = GENERATE(1, 3, 8);
  const schedule_shape shape{.ranks = ranks, .microbatches = microbatches};
  const auto generated = build_by_rules(
    shape, {.in_flight_limit = [=](auto rank) { return ranks - rank; }});
  CHECK(generated.lanes == make_schedule("1f1b", shape).lanes);
}

TEST_CASE("forwards first without a limit is gpipe") {
  const schedule_shape shape{.ranks = 3, .microbatches = 4};
  const auto generated =
    build_by_rules(shape, {.prefer = {preference::forward}});
  CHECK(generated.lanes == make_schedule("gpipe", shape).lanes);
}

TEST_CASE("weight gradients fill what would be idle") {
  const auto lanes = build_by_rules(
    {.ranks = 2, .microbatches = 2},
    {.in_flight_limit = [](auto) { return 2; },
     .prefer = {preference::weight_backward_last, preference::backward},
     .split_backward = true});
  CHECK(to_csv(lanes) ==
        "0F0,0F1,0I0,0W0,0I1,0W1\r\n"
        "1F0,1I0,1F1,1I1,1W0,1W1\r\n");
}

TEST_CASE("a stage's limit leaves a microbatch to go back before the next") {
  const auto lanes =
    build_by_rules({.ranks = 2, .microbatches = 2},
                   {.stage_limit = [](auto stage) { return stage + 1; },
                    .prefer = {preference::forward}});
  CHECK(to_csv(lanes) ==
        "0F0,0B0,0F1,0B1\r\n"
        "1F0,1B0,1F1,1B1\r\n");
}

TEST_CASE("of two ready ops the one that would start earlier runs") {
  const auto lanes = build_by_rules(
    {.ranks = 1, .microbatches = 3},
    {.start =
       [](const op& what) {
         return 2 * what.microbatch + (is_backward(what.kind) ? 3 : 0);
       },
     .prefer = {preference::early_start}});
  CHECK(to_csv(lanes) == "0F0,0F1,0B0,0F2,0B1,0B2\r\n");
}

TEST_CASE("a limit that no step can keep is refused") {
  CHECK_THROWS_MATCHES(
    build_by_rules({.ranks = 1, .stages_per_rank = 2, .microbatches = 2},
                   {.in_flight_limit = [](auto) { return 1; }}),
    error,
    Catch::Matchers::Message(
      "the rules leave rank 0 nothing to start after 1 ops, when it holds 1 "
      "activations; raise its limit"));
}

TEST_CASE("rules on a placement that is none are refused") {
  CHECK_THROWS_MATCHES(
    build_by_rules({.ranks = 2, .rank_by_stage = {{0, 2}}}, 1, {}), error,
    Catch::Matchers::Message(
      "a placement on 2 ranks, counted from 0, has no rank 2"));
  CHECK_THROWS_MATCHES(
    build_by_rules({.ranks = 65536, .stages_per_rank = 65536}, {}), error,
    Catch::Matchers::Message("stages per rank must be in 1..4096, not "
                             "65536: the nearest legal value is 4096"));
}

TEST_CASE("rules that prefer early starts need to know them") {
  CHECK_THROWS_MATCHES(
    build_by_rules({.ranks = 1}, {.prefer = {preference::early_start}}), error,
    Catch::Matchers::Message(
      "rules that prefer early_start need the function `start`"));
}
