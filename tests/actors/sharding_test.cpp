// Replicas that hold shards of a stage train the same parameters as whole ones,
// bit for bit, with every schedule.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "../random_delays.hpp"
#include "../temporary_folder.hpp"
#include "catalogue_cases.hpp"
#include "saved_run.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::vector<sharding_options> ways = {
  {.mode = shard_mode::gradients},
  {.mode = shard_mode::all},
  {.mode = shard_mode::all, .most_whole = 1},
  {.mode = shard_mode::all, .most_whole = 99},
  {.mode = shard_mode::gradients, .group = 2},
  {.mode = shard_mode::all, .group = 2}};

bool can_shard(const small_case& what) {
  return make_schedule(what.schedule, shape_of(what)).update.every == 0;
}

/// The case, sharded in one of several ways; the hybrid ones have 4 replicas.
small_case sharded_case(small_case what, std::size_t way) {
  what.sharding = ways[way % ways.size()];
  what.data_parallel = what.sharding.group > 0 ? 4 : 2;
  return what;
}

void check_shards(const small_case& what) {
  INFO(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
}

}  // namespace

TEST_CASE("a sample of each schedule trains the plain loop's bits in shards") {
  std::map<std::string, std::vector<small_case>> by_name;
  for (const auto& each : catalogue_cases())
    if (can_shard(each))
      by_name[each.schedule].push_back(each);
  CHECK(by_name.size() > 15);
  std::size_t turn = 0;
  for (const auto& [name, cases] : by_name)
    for (int i = 0; i < 2; ++i, turn += 7) {
      auto what = cases[turn % std::min(cases.size(), std::size_t{12})];
      check_shards(sharded_case(what, turn));
    }
}

TEST_CASE("each schedule trains the plain loop's bits in shards of each way",
          "[.full]") {
  for (const auto& each : catalogue_cases())
    if (each.data_parallel == 2 && can_shard(each))
      for (std::size_t way = 0; way < ways.size(); ++way)
        check_shards(sharded_case(each, way));
}

// XLA's no_sync: k backwards without a reduction, and one with it.
TEST_CASE(
  "microbatches add up unsharded, and the last one's backward reduces") {
  for (const std::int32_t without : {0, 1, 2, 3})
    for (const auto mode : {shard_mode::gradients, shard_mode::all}) {
      small_case what{
        .microbatches = without + 1, .data_parallel = 2, .use_sgd = true};
      check_shards(what);
      what.sharding.mode = mode;
      check_shards(what);
      const trainer run(model_for(what), options_for(what));
      const auto& ops = run.plan().ops;
      CHECK(std::ranges::count(ops, plan_op_kind::reduce, &plan_op::kind) == 2);
      for (auto op = ops.begin(); op != ops.end(); ++op)
        if (op->kind == plan_op_kind::reduce)
          CHECK(std::none_of(op, ops.end(), [&](const plan_op& later) {
            return later.stage == op->stage
                   && later.kind == plan_op_kind::backward;
          }));
    }
}

TEST_CASE("sharded optimizers, frozen parameters and groups: the same bits") {
  const std::vector<optimizer_options> optimizers = {
    sgd{.learning_rate = 0.1}, sgd{.learning_rate = 0.1, .momentum = 0.9},
    adamw{.learning_rate = 1e-2}, lion{.learning_rate = 1e-3}};
  std::size_t turn = 0;
  for (const auto& optimizer : optimizers) {
    small_case what{
      .schedule = "zb_v", .stages_per_rank = 2, .optimizer = optimizer};
    check_shards(sharded_case(what, turn++));
    what.groups = {{.names = "blocks.1.*", .learning_rate = 0.5},
                   {.names = "*.ln*", .weight_decay = 0.0},
                   {.names = "blocks.2.*", .frozen = true}};
    check_shards(sharded_case(what, turn++));
  }
}

TEST_CASE("each schedule trains muon's and adafactor's bits in shards",
          "[.full]") {
  for (const optimizer_options& optimizer :
       std::initializer_list<optimizer_options>{muon{}, adafactor{}})
    for (auto each : catalogue_cases())
      if (each.data_parallel == 2 && can_shard(each))
        for (std::size_t way = 0; way < ways.size(); ++way) {
          each.optimizer = optimizer;
          check_shards(sharded_case(each, way));
        }
}

TEST_CASE("updates that read whole parameters give the same bits in shards") {
  const small_case stages{.schedule = "zb_v", .stages_per_rank = 2};
  std::vector<small_case> cases(8, stages);
  cases[1].clip = 0.5;
  cases[2].dtypes.parameters = at::kBFloat16;
  cases[3].tied = true;
  cases[4].schedule = "dualpipe";
  cases[4].stages_per_rank = 1;
  cases[4].microbatches = 6;
  cases[5].groups = {{.names = "blocks.1.*", .learning_rate = 0.5},
                     {.names = "*.ln*", .weight_decay = 0.0},
                     {.names = "blocks.2.*", .frozen = true}};
  cases[6].offload_optimizer = true;
  cases[7].loss_scale = {
    .initial = 1e38, .dynamic = true, .growth_interval = 2};
  std::size_t turn = 0;
  for (const optimizer_options& optimizer :
       {optimizer_options{muon{.learning_rate = 1e-2}},
        optimizer_options{muon{.except = ""}}, optimizer_options{adafactor{}}})
    for (auto each : cases) {
      each.optimizer = optimizer;
      check_shards(sharded_case(each, turn++));
    }
}

TEST_CASE("delays, recomputing, autocast and slices change no bit in shards") {
  std::size_t turn = 0;
  for (auto what :
       {small_case{.recompute = true},
        small_case{.schedule = "interleaved_1f1b",
        .stages_per_rank = 2,
        .autocast = at::kBFloat16},
        small_case{.schedule = "seq_1f1b", .slices = 2},
        small_case{.schedule = "zb_h1", .weight_split = weight_split::graph},
        small_case{.order = lane_order::any_ready},
        small_case{.overlaps = false}}) {
    what = sharded_case(what, turn++);
    INFO(describe(what));
    CHECK(compare_with_plain(what, 3, random_delays(std::uint32_t(turn)))
          == "");
  }
}

TEST_CASE("clipping in shards is the plain loop's within rounding") {
  for (const auto type :
       {norm_type::infinity, norm_type::one, norm_type::two, norm_type::three})
    for (const std::size_t way : {0U, 1U, 5U}) {
      const auto what = sharded_case(
        {.clip = type == norm_type::infinity ? 0.02 : 0.5, .norm_type = type},
        way);
      INFO(describe(what));
      trainer run(model_for(what), options_for(what));
      plain_loop oracle(model_for(what), plain_options_for(what));
      const auto text = small_text();
      for (int i = 0; i < 3; ++i) {
        const auto norm = run.step(text).summary.gradient_norm;
        const auto expected = oracle.step([&](std::int64_t k) {
          return text->at(i * what.microbatches * what.data_parallel + k);
        });
        CHECK(std::abs(norm / expected.gradient_norm - 1) < 1e-6);
      }
      const auto own = run.parameters(), exact = oracle.parameters();
      for (std::size_t i = 0; i < own.size(); ++i)
        CHECK(own[i].second.allclose(exact[i].second, 1e-5, 1e-6));
    }
}

TEST_CASE("an overflow skips the update of all shards") {
  const auto what = sharded_case(
    {.loss_scale = {.initial = 1e38, .dynamic = true, .growth_interval = 2}},
    GENERATE(0U, 1U));
  CHECK(compare_with_plain(what, 3) == "");
}

TEST_CASE("evaluation, inference and loading work on sharded parameters") {
  small_case what{.schedule = "interleaved_1f1b", .stages_per_rank = 2};
  auto whole = what;
  whole.data_parallel = 2;
  trainer other(model_for(whole), options_for(whole));
  trainer run(model_for(what),
              options_for(sharded_case(what, GENERATE(0U, 1U))));
  const auto text = small_text();
  other.step(text);
  run.load(other.parameters(), "test");
  CHECK(first_difference(run.parameters(), other.parameters()) == "");
  CHECK(run.evaluate(text, 8).losses.at(0).value
        == other.evaluate(text, 8).losses.at(0).value);
  const auto inputs = text->at(0).inputs;
  CHECK(run.infer(inputs).at(0).equal(other.infer(inputs).at(0)));
  run.check_replicas();
}

TEST_CASE("a sharded run goes on from a checkpoint in any other shards") {
  const auto text = small_text();
  small_case shape{.schedule = "interleaved_1f1b", .stages_per_rank = 2};
  shape.optimizer = GENERATE(as<std::optional<optimizer_options>>{},
                             std::nullopt, muon{}, adafactor{});
  shape.data_parallel = 4;
  trainer straight(model_for(shape), options_for(shape));
  for (int i = 0; i < 4; ++i)
    straight.step(text);
  const temporary_folder folder;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    shape.sharding = ways[way];
    auto resumed = shape;
    resumed.sharding =
      way + 1 < ways.size() ? ways[way + 1] : sharding_options{};
    trainer first(model_for(shape), options_for(shape));
    first.step(text);
    first.step(text);
    const auto place = saved_run(first, folder / std::to_string(way));
    trainer second(model_for(resumed), options_for(resumed));
    second.restore(stored_checkpoint(place));
    second.step(text);
    second.step(text);
    INFO(describe(shape) << ", then " << describe(resumed));
    CHECK(first_difference(second.parameters(), straight.parameters()) == "");
  }
}

TEST_CASE("shards that make no sense are refused") {
  const auto refused = [](small_case what, const std::string& why) {
    CHECK_THROWS_MATCHES(trainer(model_for(what), options_for(what)), error,
                         MessageMatches(ContainsSubstring(why)));
  };
  small_case what;
  what.sharding.mode = shard_mode::all;
  refused(what, "there is one");
  what.data_parallel = 4;
  what.sharding.group = 3;
  refused(what, "groups of 3");
  what.sharding.group = 0;
  what.sharding.most_whole = 0;
  refused(what, "1 or more");
  what.sharding.most_whole = 1;
  what.schedule = "weight_stash";
  refused(what, "updates within a step");
}
