// A parameter that several layers hold: with every schedule the bits are the
// plain loop's, wherever the holders are.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <map>

#include "../engine/transport/joined_meshes.hpp"
#include "../temporary_folder.hpp"
#include "catalogue_cases.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::vector<sharding_options> tied_ways = {
  {.mode = shard_mode::gradients},
  {.mode = shard_mode::all},
  {.mode = shard_mode::all, .most_whole = 1},
  {.mode = shard_mode::gradients, .group = 2},
  {.mode = shard_mode::all, .group = 2}};

small_case in_shards_tied(small_case what, std::size_t way) {
  what.sharding = tied_ways[way % tied_ways.size()];
  what.data_parallel = what.sharding.group > 0 ? 4 : 2;
  return what;
}

bool may_shard(const small_case& what) {
  return make_schedule(what.schedule, shape_of(what)).update.every == 0;
}

std::string refusal(const std::function<void()>& work) {
  try {
    work();
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

/// An embedding, or a map from its width to the vocabulary or back.
struct holder final : stage_module {
  enum class use { embeds, maps, maps_back };
  explicit holder(use what) : what(what) {
    weight = register_parameter(
      "weight", at::full({32, 16}, what == use::embeds ? 0.1 : 9));
    if (what == use::embeds) {
      const at::NoGradGuard no_grad;
      for (std::int64_t i = 0; i < 32; ++i)
        weight[i].mul_(0.3 * double(i % 5) - 0.5);
    } else {
      bias =
        register_parameter("bias", at::zeros({what == use::maps ? 32 : 16}));
    }
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {what == use::embeds ? at::embedding(weight, inputs[0])
            : what == use::maps
              ? at::linear(inputs[0], weight, bias)
              : at::linear(inputs[0].tanh(), weight.t(), bias)};
  }
  use what;
  at::Tensor weight, bias;
};

/// Embedding, maps and head in three layers; the last two share the embedding's
/// weight.
model three_holders() {
  const auto layer = [](std::string name, holder::use what) {
    troupe::layer result{std::move(name),
                         [what] { return std::make_shared<holder>(what); }};
    if (what != holder::use::embeds)
      result.ties = {{result.name + ".weight", "a.weight"}};
    return result;
  };
  return {layer("a", holder::use::embeds), layer("b", holder::use::maps),
          layer("c", holder::use::maps_back)};
}

numerics tied_numerics() {
  numerics result;
  result.optimizer = adamw{.learning_rate = 1e-2};
  result.loss = [](const tensor_list& outputs, const microbatch_data&) {
    return std::vector<loss_term>{
      {"loss", outputs.at(0).square().mean() + outputs.at(0).mean()}};
  };
  return result;
}

std::vector<std::string> names_of(const plain_loop& loop) {
  std::vector<std::string> names;
  for (const auto& [name, value] : loop.parameters())
    names.push_back(name);
  return names;
}

void check_tied(small_case what) {
  what.tied = true;
  INFO(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
}

}  // namespace

TEST_CASE(
  "a sample of each schedule trains tied embeddings to the plain bits") {
  std::map<std::string, std::vector<small_case>> by_name;
  for (const auto& each : catalogue_cases())
    by_name[each.schedule].push_back(each);
  CHECK(by_name.size() > 17);
  std::size_t turn = 3;
  for (const auto& [name, cases] : by_name)
    for (int i = 0; i < 3; ++i)
      check_tied(cases[(turn += 7) % cases.size()]);
}

TEST_CASE("each schedule trains tied embeddings to the plain loop's bits",
          "[.full]") {
  for (const auto& each : catalogue_cases())
    check_tied(each);
}

TEST_CASE("a sample of each schedule trains tied embeddings in shards") {
  std::map<std::string, std::vector<small_case>> by_name;
  for (const auto& each : catalogue_cases())
    if (may_shard(each))
      by_name[each.schedule].push_back(each);
  CHECK(by_name.size() > 15);
  std::size_t turn = 2;
  for (const auto& [name, cases] : by_name)
    for (int i = 0; i < 2; ++i, turn += 7)
      check_tied(in_shards_tied(
        cases[turn % std::min(cases.size(), std::size_t{12})], turn));
}

TEST_CASE("each schedule trains tied embeddings in shards of each way",
          "[.full]") {
  for (const auto& each : catalogue_cases())
    if (each.data_parallel == 2 && may_shard(each))
      for (std::size_t way = 0; way < tied_ways.size(); ++way)
        check_tied(in_shards_tied(each, way));
}

TEST_CASE("numerics of every kind train tied embeddings to the plain bits") {
  const small_case deep{.schedule = "interleaved_1f1b", .stages_per_rank = 2};
  check_tied({.clip = 0.5});
  check_tied(
    {.data_parallel = 2, .clip = 0.1, .norm_type = norm_type::infinity});
  check_tied({.autocast = at::kBFloat16});
  check_tied({.data_parallel = 2, .recompute = true});
  check_tied({.schedule = "zb_h1", .weight_split = weight_split::graph});
  check_tied({.schedule = "seq_1f1b", .slices = 2, .clip = 0.5});
  check_tied({.data_parallel = 2, .overlaps = false});
  check_tied({.ranks = 1});
  check_tied({.ranks = 1, .data_parallel = 3});
  check_tied({.schedule = "dualpipe", .data_parallel = 2, .clip = 0.5});
  check_tied({.order = lane_order::any_ready, .optimizer = muon{}});
  check_tied(
    {.loss_scale = {.initial = 1e38, .dynamic = true, .growth_interval = 2}});
  auto what = deep;
  what.groups = {{.names = "tok.*", .learning_rate = 0.5, .weight_decay = 0.0},
                 {.names = "*.ln*", .weight_decay = 0.0}};
  check_tied(what);
  check_tied(in_shards_tied(what, 1));
  what.groups = {{.names = "tok.*", .frozen = true}};
  check_tied(what);
  check_tied(in_shards_tied(what, 1));
  what.groups = {{.names = "head.*", .learning_rate = 3}};
  check_tied(what);
}

TEST_CASE("the sum does not depend on the split, however many layers hold it") {
  const auto layers = three_holders();
  const auto text = small_text();
  plain_options plain;
  plain.microbatches = 4;
  plain.numerics = tied_numerics();
  plain_loop oracle(layers, plain);
  for (int i = 0; i < 2; ++i)
    oracle.step([&](std::int64_t k) { return text->at(4 * i + k); });
  const auto names = names_of(oracle);
  CHECK(names == std::vector<std::string>{"a.weight", "b.bias", "c.bias"});
  const std::vector<std::vector<std::int32_t>> splits{
    {3}, {1, 2}, {2, 1}, {1, 1, 1}};
  for (const auto& counts : splits) {
    trainer_options options;
    options.schedule = make_schedule(
      "1f1b", {.ranks = std::int32_t(counts.size()), .microbatches = 4});
    options.split = split_by_hand(3, counts);
    options.numerics = tied_numerics();
    trainer run(layers, options);
    for (int i = 0; i < 2; ++i)
      run.step(text);
    run.check_replicas();
    CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
  }
}

TEST_CASE("updates within a step where a rank holds both holders") {
  // Stages 0 and 3 are on rank 0.
  const small_case what{.schedule = "hanayo", .stages_per_rank = 2};
  auto lanes = make_schedule("hanayo", shape_of(what));
  lanes.update.every = 2;
  const auto refused = refusal([&] { compile(lanes, {.tied = {0, 3}}); });
  CHECK_THAT(refused, ContainsSubstring("stages 0 and 3 hold tied parameters"));

  auto tied = what;
  tied.tied = true;
  tied.microbatches = 2;
  auto half = make_schedule("hanayo", shape_of(tied));
  auto whole = half;
  whole.microbatches = 4;
  for (std::size_t r = 0; r < half.lanes.size(); ++r)
    for (auto op : half.lanes[r]) {
      op.microbatch += 2;
      whole.lanes[r].push_back(op);
    }
  whole.update.every = 2;
  auto options = options_for(what);
  options.schedule = whole;
  auto four = tied;
  four.microbatches = 4;
  trainer run(model_for(four), options);
  plain_loop oracle(model_for(four), plain_options_for(four, whole));
  for (int i = 0; i < 2; ++i) {
    run.step(small_text());
    oracle.step([&](std::int64_t k) { return small_text()->at(4 * i + k); });
  }
  run.check_replicas();
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
}

TEST_CASE("tied parameters are there once, and all holders are loaded") {
  const small_case what{.ranks = 2, .tied = true};
  trainer run(model_for(what), options_for(what));
  const auto untied = model_for({.ranks = 2});
  trainer other(untied, options_for({}));
  CHECK(run.parameter_count() == other.parameter_count() - 32 * 16);
  auto values = run.gather_parameters();
  CHECK(values.size() == other.parameters().size() - 1);
  for (auto& [name, value] : values) {
    CHECK(name != "head.weight");
    value = value.detach().clone();
    if (name == "tok.weight")
      value += 1;
  }
  run.load(values, "test");
  run.check_replicas();
  CHECK(first_difference(run.parameters(), values) == "");
  values.emplace_back("head.weight", values.front().second + 1);
  CHECK(refusal([&] { run.load(values, "file"); })
        == "file: holds different values of 'tok.weight' and 'head.weight', "
           "which this model ties");
  values.back().second = values.front().second;
  run.load(values, "file");
}

TEST_CASE("a holder with other values is named") {
  const small_case what{.ranks = 2, .tied = true};
  auto layers = model_for(what);
  auto& head = layers.back();
  std::shared_ptr<stage_module> last_head;
  head.make = [make = head.make, &last_head] { return last_head = make(); };
  const trainer run(layers, options_for(what));
  run.check_replicas();
  {
    const at::NoGradGuard no_grad;
    for (auto& parameter : last_head->named_parameters())
      if (parameter.key() == "head.weight")
        parameter.value().add_(1);
  }
  CHECK(refusal([&] { run.check_replicas(); })
        == "head.weight has different values in stage 1 of replica 0 than "
           "tok.weight, to which it is tied");
}

TEST_CASE("a plan needs the sums of tied gradients, and no others") {
  const small_case what{.microbatches = 2, .tied = true};
  auto options = options_for(what);
  const trainer run(model_for(what), options);
  const auto text = to_text(run.plan());
  CHECK(text.find("0B1 0SUM_TIED 0NORM") != std::string::npos);
  CHECK(text.find("1SEND_B1 1SUM_TIED 1NORM") != std::string::npos);
  options.plan = std::make_shared<const plan>(plan_from_text(text));
  const trainer again(model_for(what), options);
  const auto untied = model_for({.microbatches = 2});
  CHECK_THAT(refusal([&] { trainer(untied, options); }),
             ContainsSubstring("stage 0 sums tied gradients"));
  auto without = text;
  without.erase(without.find("1SUM_TIED "), 10);
  options.plan = std::make_shared<const plan>(plan_from_text(without));
  CHECK_THAT(refusal([&] { trainer(model_for(what), options); }),
             ContainsSubstring("stage 1 holds tied parameters"));
}

TEST_CASE("a run with tied embeddings takes another order") {
  const small_case what{.microbatches = 6, .tied = true};
  trainer run(model_for(what), options_for(what));
  plain_loop oracle(model_for(what), plain_options_for(what));
  for (int i = 0; i < 3; ++i) {
    if (i == 1)
      run.replan(make_schedule("zb_h1", shape_of(what)));
    run.step(small_text());
    oracle.step([&](std::int64_t k) { return small_text()->at(6 * i + k); });
  }
  CHECK(run.plan().schedule_name == "zb_h1");
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
}

TEST_CASE("a tied run goes on from its checkpoint in any other shape") {
  const auto text = small_text();
  small_case shape{.schedule = "zb_v", .stages_per_rank = 2, .tied = true};
  shape.data_parallel = 4;
  trainer straight(model_for(shape), options_for(shape));
  for (int i = 0; i < 3; ++i)
    straight.step(text);
  for (std::size_t way = 0; way < tied_ways.size(); ++way) {
    const temporary_folder folder;
    const checkpoint_folder to(folder / "saved");
    to.prepare();
    {
      auto first = shape;
      first.sharding = tied_ways[way];
      trainer run(model_for(first), options_for(first));
      for (int i = 0; i < 2; ++i)
        run.step(text);
      const auto parts = run.snapshot();
      for (const auto& [part, tensors] : parts)
        to.write_part(2, part, tensors);
      to.complete({.run = "a run", .progress = run.progress()},
                  static_cast<std::int32_t>(parts.size()), {});
    }
    const stored_checkpoint from(to.path_of(2));
    CHECK(from.find("head.weight") == nullptr);
    CHECK(from.find("optimizer/exp_avg/head.weight") == nullptr);
    CHECK(from.find("tok.weight") != nullptr);
    auto resumed = shape;
    resumed.schedule = "interleaved_1f1b";
    resumed.sharding = way == 4 ? sharding_options{} : tied_ways[way + 1];
    trainer run(model_for(resumed), options_for(resumed));
    run.restore(from);
    run.step(text);
    run.check_replicas();
    CHECK(first_difference(run.parameters(), straight.parameters()) == "");
  }
}

TEST_CASE("processes sum tied gradients over links to the same bits") {
  std::vector<small_case> cases{
    {},
    {.schedule = "gpipe", .ranks = 3, .clip = 0.5},
    {.data_parallel = 2, .clip = 0.5},
    {.schedule = "dualpipe", .data_parallel = 2},
    {.schedule = "zb_v", .ranks = 4, .stages_per_rank = 2},
    {.schedule = "two_bw", .ranks = 3, .microbatches = 7},
    in_shards_tied({}, 1),
    in_shards_tied({.schedule = "interleaved_1f1b", .stages_per_rank = 2}, 4)};
  for (auto& what : cases) {
    what.tied = true;
    INFO(describe(what));
    trainer alone(model_for(what), options_for(what));
    for (int i = 0; i < 2; ++i)
      alone.step(small_text());
    parameter_list together;
    joined_meshes meshes(what.ranks * std::min(2, what.data_parallel));
    for (const auto& error :
         in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
           auto run = trainer_for(what, job);
           for (int i = 0; i < 2; ++i)
             run.step(small_text());
           run.check_replicas();
           auto all = run.gather_parameters();
           if (job->place().leads())
             for (auto& [name, value] : all)
               together.emplace_back(name, value.clone());
         }))
      CHECK(error == "");
    CHECK(first_difference(together, alone.parameters()) == "");
  }
}
