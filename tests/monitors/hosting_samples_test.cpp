#include "troupe/monitors/timing/hosting_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <memory>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using Catch::Approx;

namespace {

std::shared_ptr<const plan> pipeline_of_two() {
  return std::make_shared<plan>(
    compile(make_schedule("gpipe", {.ranks = 2, .microbatches = 1})));
}

/// The first op of this kind, in seconds.
op_record record_of(const plan& of, std::int32_t rank, plan_op_kind kind,
                    double begin, double end) {
  for (const auto op : of.ops_of(rank))
    if (of.ops[op].kind == kind)
      return {.op = op,
              .begin = static_cast<std::int64_t>(begin * 1e9),
              .end = static_cast<std::int64_t>(end * 1e9)};
  FAIL("no such op");
  return {};
}

ops_event event_of(const std::shared_ptr<const plan>& of, std::int32_t rank,
                   std::vector<op_record> ops, std::int32_t data_rank = 0) {
  ops_event event;
  event.ops = std::move(ops);
  event.plan = of;
  event.source.rank = rank;
  event.source.data_rank = data_rank;
  return event;
}

double length_of(const op_record& op) {
  return 1e-9 * static_cast<double>(op.end - op.begin);
}

}  // namespace

TEST_CASE("ops that share a core are taken for shorter ones") {
  const auto plan = pipeline_of_two();
  using enum plan_op_kind;
  const std::vector step{
    event_of(plan, 0, {record_of(*plan, 0, forward, 0, 4)}),
    event_of(plan, 1, {record_of(*plan, 1, forward, 2, 6)})};
  const auto alone = [&](const rank_places& places) {
    const auto ops = undisturbed(step, places);
    return std::pair(length_of(ops[0].ops[0]), length_of(ops[1].ops[0]));
  };
  // From 2 to 4 both run, by half of the core each.
  CHECK(alone({{0, 0}, {0}, {1}}) == std::pair(3.0, 3.0));
  CHECK(alone({{0, 1}, {0, 0}, {1}}) == std::pair(3.0, 3.0));
  CHECK(alone({{0, 0}, {0}, {2}}) == std::pair(4.0, 4.0));
  CHECK(alone({{0, 1}, {0, 1}, {1, 1}}) == std::pair(4.0, 4.0));
}

TEST_CASE("a process is slow if it takes longer for the same work") {
  const auto plan = pipeline_of_two();
  using enum plan_op_kind;
  const rank_places places{{0, 1}, {0, 1}, {1, 1}};
  hosting_samples samples;
  for (int i = 0; i < 3; ++i)
    samples.add({event_of(plan, 0, {record_of(*plan, 0, forward, 0, 1)}),
                 event_of(plan, 1, {record_of(*plan, 1, forward, 1, 3)})},
                places);
  CHECK(samples.steps() == 3);
  SECTION("stages of equal work tell") {
    const auto found = samples.measured({100, 100});
    CHECK(found.speeds == std::vector{1.0, 0.5});
    CHECK(found.costs.of_stage[0][slot(forward)] == Approx(1));
    CHECK(found.costs.of_stage[1][slot(forward)] == Approx(1));
  }
  SECTION("stages of different work do not") {
    const auto found = samples.measured({100, 200});
    CHECK(found.speeds == std::vector{1.0, 1.0});
    CHECK(found.costs.of_stage[1][slot(forward)] == Approx(2));
    CHECK(found.costs.of_stage[1][slot(backward)] == 0);
  }
  SECTION("a replica does") {
    samples.clear();
    CHECK(samples.steps() == 0);
    samples.add({event_of(plan, 0, {record_of(*plan, 0, forward, 0, 1)}),
                 event_of(plan, 0, {record_of(*plan, 0, forward, 0, 4)}, 1)},
                {{0, 0, 1, 1}, {0, 1}, {1, 1}});
    CHECK(samples.measured({100, 200}).speeds == std::vector{1.0, 0.25});
  }
}

TEST_CASE("messages between processes are measured") {
  const auto plan = pipeline_of_two();
  using enum plan_op_kind;
  auto read = record_of(*plan, 1, forward, 3, 4);
  read.left = 1'000'000'000;
  read.arrived = 1'500'000'000;
  hosting_samples samples;
  samples.add({event_of(plan, 1, {read})}, {{0, 1}, {0, 1}, {1, 1}});
  CHECK(samples.measured({100, 200}).costs.message == Approx(0.5));
}
