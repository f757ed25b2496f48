#include "troupe/engine/plan/search/search.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <algorithm>
#include <limits>
#include <random>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/search/search_steps.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using Catch::Matchers::Message;

namespace {

search_problem job(troupe::placement where, std::int32_t microbatches,
                   unsigned seed) {
  search_problem problem{.placement = std::move(where),
                         .microbatches = microbatches,
                         .costs = parse_costs("message=0.1,update=0.2"),
                         .effort = 200};
  std::mt19937 random(seed);
  const auto varied = [&] {
    return 0.6 + static_cast<double>(random() % 800) / 1000;
  };
  problem.costs.of_stage.assign(
    static_cast<std::size_t>(problem.placement.stages()),
    problem.costs.of_kind);
  for (auto& row : problem.costs.of_stage) {
    for (const auto kind :
         {plan_op_kind::forward, plan_op_kind::input_backward,
          plan_op_kind::weight_backward, plan_op_kind::backward})
      row[static_cast<std::size_t>(kind)] =
        varied() * (kind == plan_op_kind::backward ? 2 : 1);
  }
  return problem;
}

std::vector<placement> small_placements() {
  std::vector<placement> all;
  for (std::int32_t ranks = 1; ranks <= 4; ++ranks) {
    for (std::int32_t stages = 1; stages <= 3; ++stages)
      all.push_back(placement::looped(ranks, ranks * stages));
    all.push_back(placement::v_shaped(ranks));
  }
  return all;
}

// The properties of every result.
void check(const search_problem& problem, const search_result& result) {
  validate(result.found);
  CHECK(result.found.placement == problem.placement);
  CHECK_FALSE(first_out_of_order(result.found));
  const auto of = compile(result.found, problem.compiling);
  for (const auto& model : testing::all_transports)
    CHECK(verify(of, model).progress);
  const auto times = simulate(of, problem.costs);
  CHECK(times.period == result.period);
  CHECK(times.makespan == result.makespan);
  CHECK(result.lower_bound <= result.period * (1 + 1e-12));
  if (!problem.sizes)
    return;
  const auto bytes = peak_bytes(of, times, *problem.sizes);
  CHECK(std::ranges::max(bytes) == result.peak_bytes);
  if (problem.memory_limit > 0)
    CHECK(result.peak_bytes <= problem.memory_limit);
}

// The shortest period of a built-in schedule within the limit.
double best_known(const search_problem& problem) {
  const auto& where = problem.placement;
  auto best = std::numeric_limits<double>::infinity();
  for (const auto& row : builtin_schedules()) {
    schedule lanes;
    try {
      lanes = make_schedule(row.name,
                            {.ranks = where.ranks,
                             .stages_per_rank = where.stages() / where.ranks,
                             .microbatches = problem.microbatches,
                             .slices = problem.slices});
    } catch (const error&) {
      continue;
    }
    if (lanes.placement != where || !is_training(lanes))
      continue;
    const auto of = compile(lanes, problem.compiling);
    const auto times = simulate(of, problem.costs);
    if (problem.memory_limit == 0
        || std::ranges::max(peak_bytes(of, times, *problem.sizes))
             <= problem.memory_limit)
      best = std::min(best, times.period);
  }
  return best;
}

}  // namespace

TEST_CASE("what search finds is legal and no worse than the catalogue") {
  unsigned seed = 0;
  for (const auto& where : small_placements())
    for (const std::int32_t microbatches : {1, 3, 6}) {
      const auto problem = job(where, microbatches, ++seed);
      CAPTURE(where.ranks, where.stages(), microbatches);
      const auto result = search(problem);
      check(problem, result);
      const auto expected = best_known(problem);
      CHECK(result.builtin_period == expected);
      CHECK(result.period <= expected);
    }
}

TEST_CASE("what search finds keeps the memory limit") {
  unsigned seed = 100;
  for (const auto& where : small_placements())
    for (const double share : {0.5, 0.8}) {
      auto problem = job(where, 6, ++seed);
      problem.sizes = parse_sizes("kept=3,activation=1,deferred=2");
      problem.memory_limit = share * search(problem).peak_bytes;
      CAPTURE(where.ranks, where.stages(), share);
      try {
        const auto result = search(problem);
        check(problem, result);
        CHECK(result.period <= best_known(problem));
      } catch (const error& reason) {
        CHECK(reason.code() == error_code::invalid_argument);
        CHECK(best_known(problem) == std::numeric_limits<double>::infinity());
      }
    }
}

TEST_CASE("search takes replicas, slices and full backwards") {
  auto problem = job(placement::looped(3, 3), 4, 7);
  problem.slices = 2;
  check(problem, search(problem));
  problem.slices = 1;
  problem.compiling = {.data_parallel = 2, .global_norm = true};
  check(problem, search(problem));
  problem.split_backward = false;
  const auto whole = search(problem);
  check(problem, whole);
  for (const auto& lane : whole.found.lanes)
    for (const auto& each : lane)
      CHECK((each.kind == op_kind::forward || each.kind == op_kind::backward));
}

TEST_CASE("search moves the ops of two copies of each stage") {
  unsigned seed = 200;
  int improved = 0;
  for (const std::int32_t ranks : {2, 4, 6})
    for (const std::int32_t microbatches : {2 * ranks, 3 * ranks}) {
      const auto problem =
        job(placement::two_directions(ranks), microbatches, ++seed);
      CAPTURE(ranks, microbatches);
      const auto result = search(problem);
      check(problem, result);
      CHECK(result.builtin == "dualpipe");
      CHECK(result.builtin_period == best_known(problem));
      CHECK(result.period <= result.builtin_period);
      improved += result.period < result.builtin_period ? 1 : 0;
    }
  CHECK(improved > 0);
}

TEST_CASE("search depends on its seed alone") {
  auto problem = job(placement::v_shaped(3), 6, 11);
  const auto first = search(problem);
  CHECK(search(problem).found == first.found);
  const auto again = search(problem);
  CHECK(again.period == first.period);
}

namespace {

// All orders of the lanes, with whole or split backwards.
class enumeration {
 public:
  explicit enumeration(const search_problem& problem) : problem_{problem} {
    found_.microbatches = problem.microbatches;
    found_.placement = problem.placement;
    found_.lanes.resize(static_cast<std::size_t>(problem.placement.ranks));
  }

  double shortest_period() {
    fill(0);
    return best_;
  }

 private:
  // One stage per rank: counts how many of its F, of B and I, and of W have
  // been placed.
  void fill(std::size_t rank) {
    if (rank == found_.lanes.size())
      return price();
    extend(rank, {});
  }

  void extend(std::size_t rank, std::array<std::int32_t, 3> counts) {
    const auto m = problem_.microbatches;
    auto& lane = found_.lanes[rank];
    if (counts == std::array{m, m, m})
      return fill(rank + 1);
    const auto add = [&](op_kind kind, std::int32_t microbatch, auto next) {
      lane.push_back({.stage = static_cast<std::int32_t>(rank),
                      .microbatch = microbatch,
                      .kind = kind});
      extend(rank, next);
      lane.pop_back();
    };
    const auto [f, g, w] = counts;
    if (f < m)
      add(op_kind::forward, f, std::array{f + 1, g, w});
    if (g < f)
      add(op_kind::input_backward, g, std::array{f, g + 1, w});
    if (g < f && w == g)
      add(op_kind::backward, g, std::array{f, g + 1, w + 1});
    if (w < g)
      add(op_kind::weight_backward, w, std::array{f, g, w + 1});
  }

  void price() {
    try {
      best_ = std::min(best_, simulate(compile(found_), problem_.costs).period);
    } catch (const error&) {  // these lanes deadlock
    }
  }

  const search_problem& problem_;
  schedule found_;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace

TEST_CASE("search finds the optimum of the smallest jobs") {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    auto problem = job(placement::looped(2, 2), 2, seed);
    problem.effort = 1000;
    const auto least = enumeration{problem}.shortest_period();
    const auto result = search(problem);
    CAPTURE(seed);
    CHECK(period_bound(problem) <= least * (1 + 1e-9));
    CHECK(result.period >= least * (1 - 1e-9));
    CHECK(result.period <= least * (1 + 1e-9));
  }
}

TEST_CASE("the bound of the period is what no order can beat") {
  search_problem problem{.placement = placement::looped(2, 2),
                         .microbatches = 4};
  CHECK(period_bound(problem) == 12);  // busy: 4 (F + B)
  problem.costs = parse_costs("f.1=3,b=2,i=1,w=0.5,update=1");
  // Rank 0: its F, 4 (F + I) of stage 1, its I and W, and the update.
  CHECK(period_bound(problem) == 1 + 4 * (3 + 1) + 1.5 + 1);
  problem.costs = parse_costs("f.1=3,b=2,i=1,w=0.5,update=1,message=0.5");
  CHECK(period_bound(problem) == 1 + 4 * (3 + 1) + 1.5 + 1 + 2 * 0.5);
  problem.split_backward = false;
  CHECK(period_bound(problem) == 1 + 4 * (3 + 2) + 2 + 1 + 2 * 0.5);
  // The messages of four forwards occupy the channel longer.
  problem.costs = parse_costs("bytes=20,bandwidth=2,message=7");
  CHECK(period_bound(problem) == 1 + 4 * 3 + 2 + 2 * (10 + 7));
  problem.microbatches = 40;
  problem.costs = parse_costs("bytes=20,bandwidth=2");
  CHECK(period_bound(problem) == 40 * 10);
}

TEST_CASE("the ranks that share copies of stages share their work") {
  search_problem problem{.placement = placement::two_directions(4),
                         .microbatches = 8,
                         .costs = parse_costs("f.3=4,b.3=6,update=1")};
  // Ranks 0 and 3 have both copies of stages 0 and 3, ranks 1 and 2 the others.
  CHECK(period_bound(problem) == (8 * (3 + 10) + 4) / 2.0);
}

TEST_CASE("search refuses what it can't search") {
  const auto refuses = [](const search_problem& problem,
                          const std::string& text) {
    CHECK_THROWS_MATCHES(search(problem), error, Message(text));
  };
  auto problem = job(placement::looped(2, 2), 2, 1);
  problem.memory_limit = 1;
  refuses(problem, "a memory limit requires sizes of stages' values");
  problem.sizes = parse_sizes("kept=4,activation=0");
  refuses(problem,
          "no schedule was found that holds at most 1 bytes on every rank; the "
          "least found holds 4");
  refuses(job(placement::two_directions(2), 3, 1),
          "no built-in schedule can start a search on this placement for 3 "
          "microbatches in 1 slices");
  problem = job(placement::looped(2, 2), 2, 1);
  problem.costs.of_op = {1};
  refuses(problem,
          "a search needs costs of stages and kinds of ops; omit those of "
          "single ops");
  problem = job(placement::looped(2, 2), 2, 1);
  problem.memory_limit = -1;
  refuses(problem, "the memory limit is -1 bytes; use 0 (none) or more");
  problem = job(placement::looped(2, 2), 2, 1);
  problem.effort = -2;
  refuses(problem,
          "the effort of a search is -2 schedules; use 0 or more, or "
          "search_problem::automatic");
}

TEST_CASE("moves keep lanes legal") {
  auto lanes = make_schedule("zb_h1", {.ranks = 2, .microbatches = 6});
  auto full = make_schedule("1f1b", {.ranks = 2, .microbatches = 6});
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    auto& lane = lanes.lanes[random() % 2];
    move_op(lane, random() % lane.size(), random() % lane.size());
    if (const auto at = random() % lane.size(); i % 10 == 0)
      join_backward(lane, at) || split_backward(lane, at);
    validate(lanes);
    CHECK_FALSE(first_out_of_order(lanes));
  }
  CHECK(split_backward(full.lanes[0], full.lanes[0].size() - 1));
  validate(full);
  CHECK(join_backward(full.lanes[0], full.lanes[0].size() - 2));
  validate(full);
  split_backwards(full);
  validate(full);
  CHECK_FALSE(first_out_of_order(full));
  auto pairs = make_schedule("dualpipe", {.ranks = 2, .microbatches = 4});
  split_backwards(pairs);
  validate(pairs);
}
