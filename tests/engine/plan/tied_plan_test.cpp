// Sums of tied gradients in plans.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/shard.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/draw/timeline.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

plan tied_plan(std::string_view name, const schedule_shape& shape,
               std::int32_t replicas = 1) {
  const auto lanes = make_schedule(name, shape);
  return compile(lanes,
                 {.data_parallel = replicas, .tied = {0, lanes.stages() - 1}});
}

std::string refusal_of(const std::string& text) {
  try {
    plan_from_text(text);
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

std::string replaced(std::string text, std::string_view what,
                     std::string_view with) {
  return text.replace(text.find(what), what.size(), with);
}

/// Checks that each sum waits for the gradients of all stages that take part,
/// of its copy and update, and that the norm of its stage waits for the sum.
void check_dependencies(const plan& of, std::size_t holders) {
  for (const auto& op : of.ops) {
    const auto inputs = of.dependencies_of(op);
    const auto sums = std::ranges::count_if(inputs, [&](std::uint32_t input) {
      return of.ops[input].kind == plan_op_kind::sum_tied;
    });
    const bool holds = op.stage == 0 || op.stage + 1 == of.stages();
    if (op.kind == plan_op_kind::sum_tied)
      CHECK(inputs.size() == holders);
    else
      CHECK(sums == (op.kind == plan_op_kind::gradient_norm && holds ? 1 : 0));
  }
}

}  // namespace

TEST_CASE("sums of tied gradients stand behind all other work of their lanes") {
  const auto text = to_text(tied_plan("1f1b", {.ranks = 2, .microbatches = 2}));
  CHECK_THAT(text, ContainsSubstring("0B1 0SUM_TIED 0NORM 0UPDATE\n"));
  CHECK_THAT(text, ContainsSubstring("1SEND_B1 1SUM_TIED 1NORM 1UPDATE\n"));
  const auto reduced =
    to_text(tied_plan("1f1b", {.ranks = 2, .microbatches = 2}, 2));
  CHECK_THAT(reduced, ContainsSubstring("0REDUCE_GRAD 0SUM_TIED 0NORM"));
}

TEST_CASE("plans with tied stages of the catalogue make progress, round-trip") {
  for (const auto& row : builtin_schedules())
    for (const auto replicas : {1, 2}) {
      const schedule_shape shape{
        .ranks = 4,
        .stages_per_rank = row.stages_per_rank.most == 1 ? 1 : 2,
        .microbatches = 8,
        .slices = row.has_slices ? 2 : 1};
      if (!is_training(make_schedule(row.name, shape)))
        continue;
      CAPTURE(row.name, replicas);
      const auto of = tied_plan(row.name, shape, replicas);
      CHECK(tied_stages(of) == std::vector{0, of.stages() - 1});
      check_dependencies(of, 2);
      for (const auto& model : testing::all_transports)
        CHECK(verify(of, model).progress);
      CHECK(plan_from_text(to_text(of)) == of);
      CHECK(options_like(of).tied == tied_stages(of));
      if (of.update.every > 0 || replicas == 1)
        continue;
      for (const auto& model : testing::all_transports)
        CHECK(verify(sharded(of), model).progress);
    }
}

TEST_CASE("a tied stage alone waits for itself") {
  check_dependencies(tied_plan("gpipe", {.ranks = 1, .microbatches = 2}), 1);
}

TEST_CASE("a sum takes its cost once all gradients are there") {
  const auto of = tied_plan("1f1b", {.ranks = 2, .microbatches = 2});
  op_costs costs;
  const auto before = simulate(of, costs).makespan;
  costs.of_kind[static_cast<std::size_t>(plan_op_kind::sum_tied)] = 0.5;
  CHECK(simulate(of, costs).makespan == before + 0.5);
  CHECK(parse_costs("sum_tied=0.5").of_kind == costs.of_kind);
  CHECK_THAT(to_json(of), ContainsSubstring("SUM_TIED"));
}

TEST_CASE("drawings show the sums beside the lanes") {
  const auto of = tied_plan("1f1b", {.ranks = 2, .microbatches = 2}, 2);
  op_costs costs;
  costs.of_kind[static_cast<std::size_t>(plan_op_kind::sum_tied)] = 0.5;
  const auto drawn = draw_svg(to_timeline(of, simulate(of, costs)));
  CHECK_THAT(drawn, ContainsSubstring("sum of tied gradients"));
}

TEST_CASE(
  "with updates within a step the stages that are tied update at once") {
  const auto of = tied_plan("weight_stash", {.ranks = 3, .microbatches = 4});
  const auto text = to_text(of);
  // The last stage's second backward waits for the first update.
  CHECK_THAT(text, ContainsSubstring("2SUM_TIED0 2NORM0 2UPDATE0"));
  CHECK(text.find("2UPDATE0") < text.find("2B1"));
  CHECK(text.find("0SUM_TIED3") < text.find("0UPDATE3"));
}

TEST_CASE("a sum out of its place is refused") {
  const auto text =
    to_text(tied_plan("1f1b", {.ranks = 2, .microbatches = 2}, 2));
  CHECK_THAT(refusal_of(replaced(text, "0SUM_TIED 0NORM", "0NORM 0SUM_TIED")),
             ContainsSubstring("0SUM_TIED comes after its stage's norm"));
  CHECK_THAT(refusal_of(replaced(text, "0REDUCE_GRAD 0SUM_TIED",
                                 "0SUM_TIED 0REDUCE_GRAD")),
             ContainsSubstring("0REDUCE_GRAD comes after its stage's sum"));
  CHECK_THAT(refusal_of(replaced(text, "0SUM_TIED", "0SUM_TIED 0SUM_TIED")),
             ContainsSubstring("0SUM_TIED appears twice"));
  CHECK_THAT(refusal_of(replaced(replaced(text, "0SUM_TIED ", ""), "0B1",
                                 "0SUM_TIED 0B1")),
             ContainsSubstring("0SUM_TIED comes before 1 backwards"));
  CHECK_THAT(refusal_of(replaced(text, "0SUM_TIED", "0SUM_TIED!")),
             ContainsSubstring("omit the '!'"));
  CHECK_THAT(refusal_of(replaced(text, "0SUM_TIED", "0SUM_TIED1")),
             ContainsSubstring("omit the microbatch"));
}

TEST_CASE("sums of two copies come in one order on all ranks") {
  const auto text =
    to_text(tied_plan("dualpipe", {.ranks = 2, .microbatches = 4}));
  CHECK_THAT(text, ContainsSubstring("0SUM_TIED 1SUM_TIED@1 "));
  CHECK_THAT(text, ContainsSubstring("1SUM_TIED 0SUM_TIED@1 "));
  CHECK_THAT(refusal_of(replaced(text, "0SUM_TIED 1SUM_TIED@1",
                                 "1SUM_TIED@1 0SUM_TIED")),
             ContainsSubstring("after the sum of a later copy"));
}

TEST_CASE("a stage that does not exist can't be tied") {
  CHECK_THROWS_AS(
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 2}),
            {.tied = {0, 2}}),
    error);
}

TEST_CASE("sums of tied gradients are not written to a lowered CSV") {
  CHECK_THROWS_MATCHES(
    to_lowered_csv(tied_plan("zb_h1", {.ranks = 2, .microbatches = 2})), error,
    Catch::Matchers::MessageMatches(ContainsSubstring("--format plan")));
}
