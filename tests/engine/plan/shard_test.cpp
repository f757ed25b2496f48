#include "troupe/engine/plan/shard.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <algorithm>
#include <set>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/lowered_csv.hpp"
#include "troupe/engine/plan/op_text.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan_text.hpp"
#include "troupe/engine/plan/simulate.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;

namespace {

/// A line a rank: its compute ops, gathers, releases and reductions. What
/// stands between the ops of a pair comes behind it, as in CSV.
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

TEST_CASE("what can't be sharded is refused") {
  const auto of = sharded_plan("1f1b", {.ranks = 2, .microbatches = 4});
  CHECK_THROWS_MATCHES(
    sharded(of), error,
    Catch::Matchers::Message(
      "1f1b: the plan gathers and releases parameters already"));
  CHECK_THROWS_MATCHES(
    sharded_plan("two_bw", {.ranks = 2, .microbatches = 4}), error,
    Catch::Matchers::Message(
      "two_bw: stages that update within a step can't be sharded"));
}
