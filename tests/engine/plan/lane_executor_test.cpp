#include "troupe/engine/plan/lane_executor.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "../../schedules/shapes.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;

namespace {

/// All ranks of a plan; the test decides when their ops end.
struct executed_plan {
  explicit executed_plan(const plan& of, lane_order order = lane_order::strict)
    : what(of), ended(of.ops.size(), 0), orders(std::size_t(of.ranks())) {
    for (std::int32_t r = 0; r < of.ranks(); ++r)
      ranks.push_back(std::make_unique<lane_executor>(of, r, order));
  }

  /// Starts all ops that can start, and returns them.
  std::vector<std::uint32_t> start_all() {
    std::vector<std::uint32_t> started;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      while (const auto op = ranks[r]->next()) {
        started.push_back(*op);
        orders[r].push_back(*op);
        ranks[r]->launched(*op);
      }
    return started;
  }

  void end(std::uint32_t op) {
    ended[op] = 1;
    for (auto& rank : ranks) {
      const auto r = static_cast<std::int32_t>(&rank - ranks.data());
      const bool own = what.rank_of(op) == r;
      if (own || is_read_elsewhere(op))
        rank->ended(op);
    }
  }
  /// An update with a global norm reads the norms of all ranks.
  bool is_read_elsewhere(std::uint32_t op) const {
    return what.ops[op].kind == plan_op_kind::gradient_norm;
  }
  /// A receive ends when its message has been sent, a collective when all its
  /// ends have begun.
  bool can_end(std::uint32_t op) const {
    return std::ranges::all_of(
      what.dependencies_of(what.ops[op]),
      [this](std::uint32_t input) { return ended[input] != 0; });
  }

  /// Runs to the end; a random number decides which op ends next. Returns false
  /// if it gets stuck.
  bool run(std::mt19937& random) {
    std::vector<std::uint32_t> running;
    while (true) {
      const auto started = start_all();
      running.insert(running.end(), started.begin(), started.end());
      const auto ready =
        std::stable_partition(running.begin(), running.end(),
                              [this](std::uint32_t op) { return can_end(op); });
      if (ready == running.begin())
        break;
      const auto chosen =
        running.begin()
        + static_cast<long>(random() % std::size_t(ready - running.begin()));
      const auto op = *chosen;
      running.erase(chosen);
      end(op);
    }
    return std::ranges::all_of(ranks,
                               [](const auto& r) { return r->finished(); });
  }

  const plan& what;
  std::vector<std::unique_ptr<lane_executor>> ranks;
  std::vector<char> ended;
  std::vector<std::vector<std::uint32_t>> orders;  // of starts, by rank
};

std::vector<plan> plans() {
  std::vector<plan> all;
  for (const auto& row : builtin_schedules()) {
    const auto shape = testing::small_shape(row);
    all.push_back(testing::make_plan(row.name, shape));
    all.push_back(testing::make_plan(
      row.name, shape,
      {.data_parallel = 2,
       .global_norm = testing::takes_global_norm(row, shape)}));
    all.push_back(offloaded(all.back(), {.fraction = 1}));
  }
  return all;
}

std::int32_t most_kept(const plan& of,
                       const std::vector<std::uint32_t>& order) {
  std::int32_t in_flight = 0, most = 0;
  for (const auto op : order) {
    in_flight += activations_added(of.ops[op].kind);
    most = std::max(most, in_flight);
  }
  return most;
}

}  // namespace

TEST_CASE("a lane in strict order starts its ops in that order") {
  std::mt19937 random(1);
  for (const auto& each : plans()) {
    CAPTURE(each.schedule_name);
    executed_plan run(each);
    REQUIRE(run.run(random));
    for (std::size_t r = 0; r < run.orders.size(); ++r)
      for (std::size_t i = 0; i < run.orders[r].size(); ++i)
        REQUIRE(run.orders[r][i] == each.first_op[r] + i);
  }
}

TEST_CASE("ready ops overtake, within the dependencies and the lane's memory") {
  std::mt19937 random(2);
  std::size_t overtakings = 0;
  for (const auto& each : plans())
    for (int round = 0; round < 40; ++round) {
      CAPTURE(each.schedule_name);
      executed_plan run(
        each, round % 2 == 0 ? lane_order::ready_first : lane_order::any_ready);
      REQUIRE(run.run(random));
      for (std::int32_t r = 0; r < each.ranks(); ++r) {
        const auto& order = run.orders[std::size_t(r)];
        REQUIRE(order.size() == each.lane(r).size());
        std::vector<std::uint32_t> lane(order.size());
        std::iota(lane.begin(), lane.end(), each.first_op[std::size_t(r)]);
        CHECK(most_kept(each, order) <= most_kept(each, lane));
        overtakings += order != lane;
        std::set<std::uint32_t> before;
        for (const auto op : order) {
          for (const auto input : each.dependencies_of(each.ops[op]))
            if (each.rank_of(input) == r)
              CHECK(before.contains(input));
          before.insert(op);
        }
      }
    }
  CHECK(overtakings > 0);
}

TEST_CASE("F, B and I keep the lane's order in ready_first, and W overtake") {
  std::mt19937 random(5);
  std::size_t overtakings = 0;
  for (const auto& each : plans())
    for (int round = 0; round < 20; ++round) {
      executed_plan run(each, lane_order::ready_first);
      REQUIRE(run.run(random));
      for (const auto& order : run.orders) {
        std::uint32_t last = 0, last_leading = 0;
        for (const auto op : order) {
          const auto kind = each.ops[op].kind;
          if (!is_compute(kind))
            continue;
          if (kind != plan_op_kind::weight_backward) {
            CHECK(op >= last_leading);
            last_leading = op;
            overtakings += op < last;
          }
          last = op;
        }
      }
    }
  CHECK(overtakings > 0);
}

TEST_CASE("ops of one stage and kind keep their order") {
  std::mt19937 random(3);
  for (const auto& each : plans()) {
    executed_plan run(each, lane_order::any_ready);
    REQUIRE(run.run(random));
    for (const auto& order : run.orders) {
      std::map<std::pair<std::int32_t, plan_op_kind>, std::uint32_t> last;
      for (const auto op : order) {
        const auto& what = each.ops[op];
        if (is_transfer(what.kind))
          continue;
        const auto [at, first] =
          last.emplace(std::pair{what.stage, what.kind}, op);
        CHECK((first || at->second < op));
        at->second = op;
      }
    }
  }
}

namespace {

/// Whether an op ends although another one never starts, while all other ops
/// that can run do.
bool ends_without(const plan& of, std::uint32_t op, std::uint32_t withheld) {
  executed_plan run(of, lane_order::any_ready);
  run.ranks[std::size_t(of.rank_of(withheld))]->hold(withheld);
  std::vector<std::uint32_t> running;
  for (bool more = true; more;) {
    const auto started = run.start_all();
    running.insert(running.end(), started.begin(), started.end());
    more = std::erase_if(running,
                         [&](std::uint32_t each) {
                           const bool ends =
                             each != withheld && run.can_end(each);
                           if (ends)
                             run.end(each);
                           return ends;
                         })
           > 0;
  }
  return run.ended[op] != 0;
}

/// Whether the forward of a backward waits for the same op.
bool forward_waits_for(const plan& of, const plan_op& backward,
                       std::uint32_t input) {
  return std::ranges::any_of(of.ops, [&](const plan_op& op) {
    return op.kind == plan_op_kind::forward && op.stage == backward.stage
           && op.microbatch == backward.microbatch
           && takes_gradient(backward.kind)
           && std::ranges::count(of.dependencies_of(op), input) > 0;
  });
}

plan without_dependency(plan of, std::uint32_t op, std::uint32_t input) {
  std::vector<std::uint32_t> rest;
  for (const auto each : of.dependencies_of(of.ops[op]))
    if (each != input)
      rest.push_back(each);
  of.ops[op].first_dependency =
    static_cast<std::uint32_t>(of.dependencies.size());
  of.ops[op].dependency_count = static_cast<std::uint32_t>(rest.size());
  of.dependencies.insert(of.dependencies.end(), rest.begin(), rest.end());
  return of;
}

}  // namespace

// Without any single dependency an op would end too early. The exceptions are
// what a reload's place implies, and four kinds: a backward's own forward,
// which the gradient implies; what another slice keeps; the order of ops of one
// stage and kind; and a receive, which ends with its message.
TEST_CASE("no dependency is decoration") {
  int needed = 0, implied = 0;
  for (const auto& each : plans())
    for (std::uint32_t op = 0; op < each.ops.size(); ++op) {
      const auto& what = each.ops[op];
      if (what.kind == plan_op_kind::receive || offloads(each))
        continue;
      for (const auto input : each.dependencies_of(what)) {
        CAPTURE(each.schedule_name, to_text(each, op), to_text(each, input));
        CHECK_FALSE(ends_without(each, op, input));
        const bool early =
          ends_without(without_dependency(each, op, input), op, input);
        const bool own_forward =
          takes_gradient(what.kind)
          && each.ops[input].kind == plan_op_kind::forward;
        const bool other_slice = each.ops[input].kind == what.kind
                                 && each.ops[input].slice != what.slice;
        CHECK((early || own_forward || other_slice
               || forward_waits_for(each, what, input)));
        ++(early ? needed : implied);
      }
    }
  CHECK(needed > implied);
}

// Two replicas; a reduction ends when both have begun it.
TEST_CASE("replicas whose reductions hold the compute stream don't deadlock") {
  // Rank 0's reductions are in the order of stages, not of their backwards.
  auto text = to_text(testing::make_plan(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 4},
    {.data_parallel = 2}));
  const std::string first = " 2REDUCE_GRAD", second = " 0REDUCE_GRAD";
  text.erase(text.find(first), first.size());
  text.insert(text.find(second) + second.size(), first);
  const auto of = without_overlapped_reductions(plan_from_text(text));
  std::size_t stuck = 0;
  for (unsigned seed = 0; seed < 1000; ++seed)
    for (const auto order :
         {lane_order::strict, lane_order::ready_first, lane_order::any_ready}) {
      std::mt19937 random(seed);
      std::array<executed_plan, 2> replicas{executed_plan(of, order),
                                            executed_plan(of, order)};
      std::array<std::vector<std::uint32_t>, 2> running;
      const auto reduces = [&](std::uint32_t op) {
        return of.ops[op].kind == plan_op_kind::reduce;
      };
      while (true) {
        std::vector<std::pair<std::size_t, std::uint32_t>> ready;
        for (std::size_t d = 0; d < 2; ++d) {
          const auto started = replicas[d].start_all();
          running[d].insert(running[d].end(), started.begin(), started.end());
        }
        for (std::size_t d = 0; d < 2; ++d)
          for (const auto op : running[d])
            if (replicas[d].can_end(op)
                && (!reduces(op) || std::ranges::count(running[1 - d], op) > 0
                    || replicas[1 - d].ended[op] != 0))
              ready.emplace_back(d, op);
        if (ready.empty())
          break;
        const auto [d, op] = ready[random() % ready.size()];
        std::erase(running[d], op);
        replicas[d].end(op);
      }
      for (const auto& replica : replicas)
        for (const auto& rank : replica.ranks)
          stuck += !rank->finished();
    }
  CHECK(stuck == 0);
}

TEST_CASE("an op that is held starts when it is released") {
  const auto of = compile(make_schedule("1f1b", {1, 1, 1}));
  lane_executor run(of, 0);
  run.hold(0);
  CHECK_FALSE(run.next());
  CHECK(run.position() == 0U);
  run.release(0);
  CHECK(run.next() == 0U);
  CHECK(run.launching());
  CHECK_FALSE(run.next());  // one launch at a time
  run.launched(0);
  CHECK_FALSE(run.next());  // no other op of the compute stream
  CHECK(run.position() == 0U);
  run.ended(0);
  CHECK(run.next() == 1U);
}

TEST_CASE("nothing is computed beside a reduction on the compute stream") {
  const auto whole =
    compile(make_schedule("interleaved_1f1b", {2, 2, 2}), {.data_parallel = 2});
  const auto overlapped = [&](const plan& of) {
    executed_plan run(of);
    // Reductions take as long as possible.
    std::size_t computed = 0;
    std::vector<std::uint32_t> reductions, running;
    while (true) {
      for (const auto op : run.start_all()) {
        const bool reduces = of.ops[op].kind == plan_op_kind::reduce;
        computed += !reductions.empty() && is_compute(of.ops[op].kind)
                    && of.rank_of(reductions.front()) == of.rank_of(op);
        (reduces ? reductions : running).push_back(op);
      }
      const auto ready = std::ranges::find_if(
        running, [&](std::uint32_t op) { return run.can_end(op); });
      auto& from = ready != running.end() ? running : reductions;
      if (from.empty())
        break;
      const auto at = ready != running.end() ? ready : from.begin();
      const auto op = *at;
      from.erase(at);
      run.end(op);
    }
    for (const auto& rank : run.ranks)
      CHECK(rank->finished());
    return computed;
  };
  CHECK(overlapped(whole) > 0);
  CHECK(overlapped(without_overlapped_reductions(whole)) == 0);
}

TEST_CASE("a second step begins as the first did") {
  std::mt19937 random(4);
  const auto of = compile(make_schedule("1f1b", {2, 1, 3}));
  executed_plan run(of);
  REQUIRE(run.run(random));
  for (auto& rank : run.ranks) {
    CHECK_FALSE(rank->position());
    rank->begin();
    CHECK_FALSE(rank->finished());
  }
  std::ranges::fill(run.ended, 0);
  CHECK(run.run(random));
}

TEST_CASE("an end that no launch came before is refused") {
  const auto of = compile(make_schedule("1f1b", {1, 1, 1}));
  lane_executor run(of, 0);
  CHECK_THROWS_AS(run.ended(0), error);
  CHECK_THROWS_AS(run.launched(0), error);
  run.next();
  CHECK_THROWS_AS(run.ended(0), error);
}
