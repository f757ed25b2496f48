#include "troupe/engine/plan/compile/shard.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <algorithm>
#include <map>
#include <set>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;

namespace {

/// One line per rank: its compute ops, gathers, releases and reductions. Those
/// between the ops of a pair follow the pair, as in CSV.
std::string without_transfers(const plan& of) {
  std::string text;
  for (std::int32_t rank = 0; rank < of.ranks(); ++rank) {
    for (const auto& what : of.lane(rank))
      if (!is_transfer(what.kind)
          && traits_of(what.kind).type != op_class::closing)
        text += to_text(of, what) + ' ';
    text += '\n';
  }
  return text;
}

plan sharded_plan(std::string_view name, const schedule_shape& shape) {
  return sharded(testing::make_plan(name, shape, {.data_parallel = 2}));
}

}  // namespace

TEST_CASE("stages are gathered, released and reduced where PyTorch does") {
  for (const auto& name : testing::case_names()) {
    CAPTURE(name);
    const auto theirs = load_plan(testing::case_path(name + ".comms.csv"));
    const auto lanes =
      from_csv(read_file(testing::case_path(name + ".compute.csv")));
    const auto ours = sharded(compile(lanes, {.data_parallel = 2}));
    CHECK(without_transfers(ours) == without_transfers(theirs));
  }
}

TEST_CASE("at most three stages of a rank are whole") {
  const auto of = sharded_plan(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 5, .microbatches = 4});
  std::size_t most = 0;
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    std::set<std::int32_t> whole;
    for (const auto& what : of.lane(rank)) {
      if (what.kind == plan_op_kind::gather)
        CHECK(whole.insert(what.stage).second);
      if (what.kind == plan_op_kind::release)
        CHECK(whole.erase(what.stage) == 1);
      if (is_compute(what.kind))
        CHECK(whole.contains(what.stage));
      most = std::max(most, whole.size());
    }
    CHECK(whole.empty());
  }
  CHECK(most == 3);
}

TEST_CASE("sharded plans of the catalogue make progress and round-trip") {
  for (const auto& row : builtin_schedules()) {
    CAPTURE(row.name);
    const schedule_shape shape{
      .ranks = 4,
      .stages_per_rank = row.stages_per_rank.most == 1 ? 1 : 2,
      .microbatches = 8,
      .slices = row.has_slices ? 2 : 1};
    if (make_schedule(row.name, shape).update.every > 0)
      continue;
    const auto of = sharded_plan(row.name, shape);
    for (const auto& model : testing::all_transports)
      CHECK(verify(of, model).progress);
    CHECK(plan_from_text(to_text(of)) == of);
    if (of.slices == 1 && of.placement.copies() == 1) {
      const auto text = to_lowered_csv(of);
      CHECK(to_lowered_csv(from_lowered_csv(text)) == text);
    }
  }
}

TEST_CASE("gathers take time in the simulator, ahead of their use") {
  const auto of = sharded_plan("1f1b", {.ranks = 2, .microbatches = 4});
  CHECK(simulate(of).makespan == 3 * (4 + 1));
  op_costs costs;
  costs.of_kind[static_cast<std::size_t>(plan_op_kind::gather)] = 0.5;
  // Rank 1 gathers while rank 0 runs its first forward.
  CHECK(simulate(of, costs).makespan == 3 * (4 + 1) + 0.5);
}

TEST_CASE("a release waits for all ops that read the parameters") {
  const auto of = sharded_plan(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 3, .microbatches = 4});
  for (std::int32_t rank = 0; rank < 2; ++rank) {
    std::map<stage_instance, std::vector<std::uint32_t>> uses;
    for (auto i = of.first_op[std::size_t(rank)];
         i < of.first_op[std::size_t(rank) + 1]; ++i) {
      const auto& what = of.ops[i];
      auto& since = uses[instance_of(what)];
      if (is_compute(what.kind))
        since.push_back(i);
      if (what.kind != plan_op_kind::release)
        continue;
      const auto inputs = of.dependencies_of(what);
      for (const auto use : since)
        CHECK(std::ranges::count(inputs, use) == 1);
      since.clear();
    }
  }
}

TEST_CASE("sharded updates are followed by gathers, which nothing releases") {
  for (const auto& row : builtin_schedules()) {
    const schedule_shape shape{
      .ranks = 4,
      .stages_per_rank = row.stages_per_rank.most == 1 ? 1 : 2,
      .microbatches = 8,
      .slices = row.has_slices ? 2 : 1};
    const auto lanes = make_schedule(row.name, shape);
    if (lanes.update.every > 0 || !is_training(lanes))
      continue;
    CAPTURE(row.name);
    const auto of = sharded_updates(compile(lanes, {.data_parallel = 2}));
    std::size_t gathers = 0;
    for (const auto& what : of.ops) {
      CHECK(what.kind != plan_op_kind::release);
      if (what.kind != plan_op_kind::gather)
        continue;
      ++gathers;
      CHECK(follows_update(of, what));
      for_each_output(of, what, [](const value&) { FAIL("makes a value"); });
    }
    CHECK(gathers == of.placement.instances().size());
    for (const auto& model : testing::all_transports)
      CHECK(verify(of, model).progress);
    CHECK(plan_from_text(to_text(of)) == of);
  }
}

TEST_CASE("whole parameters are held from a gather to its release") {
  const auto of = sharded(
    compile(
      make_schedule("breadth_first",
                    {.ranks = 1, .stages_per_rank = 4, .microbatches = 2}),
      {.data_parallel = 2}),
    2);
  const auto peak = [&](const char* sizes) {
    return peak_bytes(of, simulate(of), parse_sizes(sizes)).at(0);
  };
  CHECK(peak("parameters=3,whole=10,whole_gradient=0") == 4 * 3 + 2 * 10);
  CHECK(peak("parameters=3,whole=10") == 4 * 3 + 2 * 10 + 10);
  CHECK(peak("parameters=3,whole_gradient=10") == 4 * 3 + 10);
}

TEST_CASE("what can't be sharded is refused") {
  const auto of = sharded_plan("1f1b", {.ranks = 2, .microbatches = 4});
  CHECK_THROWS_MATCHES(
    sharded(of), error,
    Catch::Matchers::Message(
      "1f1b: the plan already gathers and releases parameters"));
  CHECK_THROWS_MATCHES(
    sharded_plan("two_bw", {.ranks = 2, .microbatches = 4}), error,
    Catch::Matchers::Message(
      "two_bw: stages that update within a step can't be sharded"));
}
