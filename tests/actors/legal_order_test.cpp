// Any legal order of a rank's ops trains the plain loop's parameters: random
// lanes, run in strict order and with ready ops first.
#include <catch2/catch_test_macros.hpp>

#include <random>

#include "../random_delays.hpp"
#include "small_model.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Draws the lanes of a whole step: random ranks advance by a random compute op
/// that can run, so the lanes can't deadlock. Backwards are whole, or split
/// into I and W.
class lane_drawer {
 public:
  lane_drawer(std::int32_t ranks, std::int32_t stages,
              std::int32_t microbatches, std::int32_t slices,
              std::uint32_t seed, bool splits = true)
    : random_(seed),
      splits_(splits),
      forwards_(std::size_t(stages), 0),
      backwards_(std::size_t(stages), 0),
      deferred_(std::size_t(stages)) {
    schedule_.name = "drawn " + std::to_string(seed);
    schedule_.microbatches = microbatches;
    schedule_.slices = slices;
    schedule_.lanes.resize(std::size_t(ranks));
    schedule_.placement =
      make_schedule("breadth_first", {ranks, stages / ranks, microbatches})
        .placement;
  }

  schedule draw() {
    for (auto ready = ready_ops(); !ready.empty(); ready = ready_ops()) {
      auto next = ready[random_() % ready.size()];
      const auto stage = std::size_t(next.stage);
      auto& deferred = deferred_[stage];
      if (next.kind == op_kind::forward)
        ++forwards_[stage];
      else if (next.kind == op_kind::weight_backward)
        deferred.erase(deferred.begin());
      else
        ++backwards_[stage];
      // A whole backward adds to the gradients, which happens in the order of
      // microbatches.
      if (next.kind == op_kind::backward && splits_
          && (!deferred.empty() || random_() % 2 == 0)) {
        next.kind = op_kind::input_backward;
        deferred.push_back(backwards_[stage] - 1);
      }
      schedule_.lanes[std::size_t(schedule_.placement.rank_of(next.stage))]
        .push_back(next);
    }
    return schedule_;
  }

 private:
  /// The number-th backward of a stage: slices of a microbatch in descending
  /// order.
  op backward_op(std::int32_t stage, std::int32_t number, op_kind kind) const {
    const auto slice = schedule_.slices - 1 - number % schedule_.slices;
    return {.stage = stage,
            .microbatch = number / schedule_.slices,
            .slice = static_cast<std::int16_t>(slice),
            .kind = kind};
  }

  std::vector<op> ready_ops() const {
    std::vector<op> ready;
    const auto stages = std::ssize(forwards_);
    const auto slices = schedule_.slices;
    for (std::int32_t s = 0; s < stages; ++s) {
      const auto at = std::size_t(s);
      const auto f = forwards_[at], b = backwards_[at];
      if (f < schedule_.microbatches * slices
          && (s == 0 || forwards_[at - 1] > f))
        ready.push_back({.stage = s,
                         .microbatch = f / slices,
                         .slice = static_cast<std::int16_t>(f % slices)});
      if ((b / slices + 1) * slices <= f
          && (s + 1 == stages || backwards_[at + 1] > b))
        ready.push_back(backward_op(s, b, op_kind::backward));
      if (!deferred_[at].empty())
        ready.push_back(
          backward_op(s, deferred_[at].front(), op_kind::weight_backward));
    }
    return ready;
  }

  std::mt19937 random_;
  bool splits_;
  schedule schedule_;
  std::vector<std::int32_t> forwards_, backwards_;  // counts by stage
  std::vector<std::vector<std::int32_t>>
    deferred_;  // I whose W is still to come
};

parameter_list trained_by(const small_case& what, const schedule& lanes,
                          lane_order order, std::function<void()> hook) {
  auto whole = what;
  whole.slices = 1;  // of the schedule that `lanes` replaces
  auto options = options_for(whole);
  options.schedule = lanes;
  options.execution.order = order;
  options.execution.handler_hook = std::move(hook);
  trainer run(model_for(what), std::move(options));
  for (int i = 0; i < 2; ++i)
    run.step(small_text());
  return run.parameters();
}

/// Checks strict order and any ready op first against the plain loop.
void check_orders(const small_case& what, const schedule& lanes,
                  std::uint32_t seed) {
  const auto strict =
    trained_by(what, lanes, lane_order::strict, random_delays(seed));
  const auto any_ready =
    trained_by(what, lanes, lane_order::any_ready, random_delays(seed));
  plain_loop oracle(model_for(what), plain_options_for(what, lanes));
  const auto per_step = what.microbatches * what.data_parallel;
  for (int i = 0; i < 2; ++i)
    oracle.step(
      [&](std::int64_t k) { return small_text()->at(i * per_step + k); });
  CHECK(first_difference(strict, oracle.parameters()) == "");
  CHECK(first_difference(any_ready, oracle.parameters()) == "");
}

std::string executed_lanes(const plan& of, const step_report& report) {
  std::string text;
  for (std::size_t r = 0; r < report.ops.size(); ++r) {
    text += "rank " + std::to_string(r) + ":";
    for (const auto& op : report.ops[r].ops)
      text += " " + to_text(of, op.op);
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("lanes drawn at random train the plain loop's bits in both orders") {
  for (std::uint32_t seed = 0; seed < 16; ++seed) {
    const small_case what{.schedule = "breadth_first",
                          .ranks = 2,
                          .stages_per_rank = 1 + std::int32_t(seed % 2),
                          .microbatches = 4,
                          .slices = 1 + std::int32_t(seed / 4),
                          .data_parallel = 1 + std::int32_t(seed % 3 == 0),
                          .recompute = seed % 5 == 0,
                          .clip = seed % 4 == 0 ? 0.5 : 0,
                          .tied = seed % 2 == 1,
                          .offload = {.fraction = double(seed % 3) / 2,
                                      .ahead = 1 + std::int32_t(seed % 2)}};
    const auto lanes =
      lane_drawer(2, 2 * what.stages_per_rank, 4, what.slices, seed).draw();
    CAPTURE(seed);
    check_orders(what, lanes, seed);
  }
}

TEST_CASE("sharded replicas of random lanes train the plain loop's bits") {
  for (std::uint32_t seed = 0; seed < 16; ++seed) {
    small_case what{.schedule = "breadth_first",
                    .ranks = 2,
                    .stages_per_rank = 1 + std::int32_t(seed % 3),
                    .microbatches = 3,
                    .slices = 1 + std::int32_t(seed / 8),
                    .data_parallel = seed % 4 == 0 ? 4 : 2,
                    .recompute = seed % 5 == 0,
                    .tied = seed % 2 == 1,
                    .offload = {.fraction = double(seed % 3) / 2}};
    what.sharding = {
      .mode = seed % 3 == 0 ? shard_mode::gradients : shard_mode::all,
      .group = seed % 8 == 0 ? 2 : 0,
      .most_whole = 1 + std::int32_t(seed % 4)};
    const auto lanes =
      lane_drawer(2, 2 * what.stages_per_rank, 3, what.slices, seed).draw();
    CAPTURE(seed);
    check_orders(what, lanes, seed);
  }
}

TEST_CASE("the order in which ready ops ran can be run again as a plan") {
  const small_case what{.ranks = 2, .microbatches = 8};
  auto options = options_for(what);
  options.execution.order = lane_order::any_ready;
  options.execution.handler_hook = random_delays(5);
  trainer run(model_for(what), options);
  // Repeats until one op has overtaken another.
  for (int i = 0; i < 50; ++i) {
    const auto& plan = run.plan();
    const auto report = run.step(small_text());
    auto text = to_text(plan);
    const auto first = text.find("rank 0:"), end = text.find("credits");
    const auto own = text.substr(first, end - first);
    const auto executed = executed_lanes(plan, report);
    if (executed == own)
      continue;
    text.replace(first, end - first, executed);
    auto again = options_for(what);
    again.schedule = {};
    again.plan = std::make_shared<const troupe::plan>(plan_from_text(text));
    trainer replayed(model_for(what), again);
    CHECK(executed_lanes(replayed.plan(), replayed.step(small_text()))
          == executed);
    return;
  }
  FAIL("no op has overtaken another");
}

TEST_CASE(
  "random lanes that update within a step train the plain loop's bits") {
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    const small_case what{.schedule = "breadth_first",
                          .ranks = 2,
                          .stages_per_rank = 1 + std::int32_t(seed % 2),
                          .microbatches = 5,
                          .data_parallel = 1 + std::int32_t(seed % 3 == 0),
                          .recompute = seed % 5 == 0,
                          // With more stages a rank would wait for itself.
                          .tied = seed % 4 == 2,
                          .offload = {.fraction = double(seed % 3) / 2}};
    auto lanes =
      lane_drawer(2, 2 * what.stages_per_rank, 5, 1, seed, false).draw();
    lanes.update = {.every = 1 + std::int32_t(seed % 3),
                    .lag = seed % 4 == 0 ? 5 : update_rule::newest};
    CAPTURE(seed);
    check_orders(what, lanes, seed);
  }
}
