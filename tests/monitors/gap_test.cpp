#include "troupe/monitors/tensors/gap.hpp"
#include "troupe/engine/data/microbatch_source.hpp"

#include <fmt/format.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>

#include "fixture_g.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/stage/random.hpp"
#include "troupe/engine/stage/split.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;

namespace {

using table = std::map<std::string, double>;

struct gap_run {
  std::map<std::int64_t, table> steps;

  sink_pointer sink() {
    return callback_sink([this](const metrics_record& record) {
      for (const auto& [name, value] : record.values)
        steps[record.source.step][name] = value;
    });
  }
};

table first_step(const trainer_options& options, std::int64_t parts) {
  gap_run output;
  trainer run(model_g(), options);
  run.attach(gap_monitor({}, output.sink()));
  run.step(source_g(parts));
  run.finish_monitors();
  return output.steps[1];
}

void check(const table& values, const std::string& name, double max,
           double mean, double var) {
  INFO(name);
  CHECK(values.at("gap/" + name + "/max") == Approx(max));
  CHECK(values.at("gap/" + name + "/mean") == Approx(mean));
  CHECK(values.at("gap/" + name + "/var") == Approx(var));
}

}  // namespace

TEST_CASE("gap's thirty golden numbers, however the batch and model are cut") {
  const auto ranks = GENERATE(1, 2);
  const auto data_parallel = GENERATE(1, 2);
  const auto microbatches = GENERATE(1, 2);
  const bool recompute = GENERATE(false, true);
  if (data_parallel * microbatches > 2)
    return;  // head's outputs would have one element each, and are skipped
  auto options = options_g(ranks, microbatches, data_parallel);
  options.numerics.recompute = recompute;
  const auto values = first_step(options, microbatches * data_parallel);
  CAPTURE(ranks, data_parallel, microbatches, recompute);
  CHECK(values.size() == 30);
  check(values, "activations/fc", 7.5, .5, 27.0625);
  check(values, "activations/head", 28.5, -6.75, 0);
  check(values, "activation_grads/fc", .75, -.125, .78125);
  check(values, "activation_grads/head", .25, .25, 0);
  check(values, "params/fc.weight", 4, .875, 6.0625);
  check(values, "params/fc.bias", 1, -.5, .5);
  check(values, "params/head.weight", 3, -.5, 12.5);
  check(values, "grads/fc.weight", 1.875, -.28125, 2.670573);
  check(values, "grads/fc.bias", 3, -.5, 12.5);
  check(values, "grads/head.weight", 1.75, .5, 3.125);
}

TEST_CASE("gap's golden numbers hold for every schedule") {
  const std::string name = GENERATE("gpipe", "1f1b", "eager_1f1b",
                                    "interleaved_1f1b", "breadth_first");
  const bool virtual_stages =
    name == "interleaved_1f1b" || name == "breadth_first";
  auto options = options_g(1, 2);
  options.schedule =
    make_schedule(name, {.ranks = virtual_stages ? 1 : 2,
                         .stages_per_rank = virtual_stages ? 2 : 1,
                         .microbatches = 2});
  const auto values = first_step(options, 2);
  CAPTURE(name);
  CHECK(values.size() == 30);
  check(values, "activations/fc", 7.5, .5, 27.0625);
  check(values, "activation_grads/fc", .75, -.125, .78125);
  check(values, "grads/fc.weight", 1.875, -.28125, 2.670573);
  check(values, "grads/head.weight", 1.75, .5, 3.125);
}

TEST_CASE(
  "of sharded parameters gap's golden numbers are those of whole ones") {
  const auto mode = GENERATE(shard_mode::gradients, shard_mode::all);
  // Including groups of `hybrid`, and shards that hold nothing.
  const auto replicas = GENERATE(2, 4);
  const auto group = GENERATE(0, 2);
  const auto multiple = GENERATE(32, 128);  // 32: fc's are in two shards
  auto options = options_g(2, 1, replicas);
  options.sharding = {mode, group};
  options.sharding.multiple = multiple;
  const auto values = first_step(options, replicas);
  CAPTURE(mode, replicas, group, multiple);
  check(values, "params/fc.weight", 4, .875, 6.0625);
  check(values, "params/fc.bias", 1, -.5, .5);
  check(values, "params/head.weight", 3, -.5, 12.5);
  check(values, "grads/fc.weight", 1.875, -.28125, 2.670573);
  check(values, "grads/fc.bias", 3, -.5, 12.5);
  check(values, "grads/head.weight", 1.75, .5, 3.125);
}

TEST_CASE("steps that `every` leaves out, and evaluations, are not seen") {
  gap_run output;
  trainer run(model_g(), options_g(2, 2));
  run.attach(gap_monitor({.every = 3}, output.sink()));
  for (int step = 0; step < 7; ++step)
    run.step(source_g(2));
  run.evaluate(source_g(2), 4);
  run.finish_monitors();
  REQUIRE(output.steps.size() == 2);
  CHECK(output.steps.contains(3));
  CHECK(output.steps.contains(6));
}

TEST_CASE("a pass on made-up data, outside of a step, records nothing") {
  gap_run output;
  trainer run(model_g(), options_g(2, 1));
  run.attach(gap_monitor({}, output.sink()));
  measured_costs(model_g(), {rows_g() * 100}, 1);
  run.step(source_g(1));
  measured_costs(model_g(), {rows_g() * 100}, 1);
  run.finish_monitors();
  CHECK(output.steps.size() == 1);
  check(output.steps[1], "activations/fc", 7.5, .5, 27.0625);
}

TEST_CASE("an evaluation between two steps changes no value") {
  gap_run output;
  trainer run(model_g(), options_g(2, 2));
  run.attach(gap_monitor({}, output.sink()));
  run.evaluate(source_g(2), 4);
  run.step(source_g(2));
  run.evaluate(source_g(2), 4);
  run.finish_monitors();
  CHECK(output.steps.size() == 1);
  check(output.steps[1], "activations/fc", 7.5, .5, 27.0625);
}

TEST_CASE("gap takes the loss scale out, and sees gradients before clipping") {
  auto options = options_g(1, 1);
  options.numerics.loss_scale.initial = 1024;
  options.numerics.clip = 1e-3;
  const auto values = first_step(options, 1);
  check(values, "grads/fc.bias", 3, -.5, 12.5);
  check(values, "activation_grads/fc", .75, -.125, .78125);
}

TEST_CASE("gap's names are chosen by globs") {
  gap_run output;
  trainer run(model_g(), options_g(2, 1));
  run.attach(gap_monitor({.match = "fc,head.*"}, output.sink()));
  run.step(source_g(1));
  run.finish_monitors();
  CHECK(output.steps[1].size() == 12);
  CHECK(output.steps[1].contains("gap/activations/fc/max"));
  CHECK(output.steps[1].contains("gap/grads/head.weight/var"));
}

TEST_CASE("values that are not finite are counted, and left out of means") {
  gap_run output;
  trainer run(model_g(), options_g(1, 1));
  run.attach(gap_monitor({}, output.sink()));
  run.step(make_source([](std::int64_t) {
    auto rows = rows_g();
    rows[0][0] = NAN;
    rows[1][1] = INFINITY;
    return microbatch_data{{rows}, {}, {}, 4};
  }));
  run.finish_monitors();
  const auto& values = output.steps[1];
  CHECK(values.at("gap/activations/fc/nans") == 2);
  CHECK(values.at("gap/activations/fc/infs") == 2);
  CHECK(values.at("gap/activations/fc/max") == INFINITY);
  CHECK(std::isfinite(values.at("gap/activations/fc/mean")));
  CHECK(std::isfinite(values.at("gap/activations/fc/var")));
}

namespace {

/// Returns a pair, an empty optional or a number, by `kind`.
struct odd_module : torch::nn::Module {
  std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
    return {x * 2, x * 100};
  }
};
struct empty_module : torch::nn::Module {
  std::optional<at::Tensor> forward(const at::Tensor&) { return {}; }
};
struct number_module : torch::nn::Module {
  double forward(const at::Tensor&) { return 3; }
};

template <class Odd>
struct odd_layer final : stage_module {
  odd_layer() { odd = register_module("odd", std::make_shared<Odd>()); }
  tensor_list forward(const tensor_list& inputs) override {
    observe(odd, inputs.at(0));
    return inputs;
  }
  std::shared_ptr<Odd> odd;
};

template <class Odd>
gap_run run_with() {
  auto layers = model_g();
  layers.insert(layers.begin() + 1,
                {"between", [] { return std::make_shared<odd_layer<Odd>>(); }});
  gap_run output;
  trainer run(layers, options_g(1, 1));
  run.attach(gap_monitor({}, output.sink()));
  run.step(source_g(1));
  run.finish_monitors();
  return output;
}

}  // namespace

TEST_CASE("of a tuple the first counts, nothing is ignored, others refused") {
  CHECK(run_with<odd_module>().steps[1].at("gap/activations/between.odd/max")
        == 15);
  CHECK_FALSE(run_with<empty_module>().steps[1].contains(
    "gap/activations/between.odd/max"));
  try {
    run_with<number_module>();
    FAIL("a number was measured");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("between.odd"));
  }
}

TEST_CASE("tensors without values are skipped, but for parameters") {
  gap_run output;
  const auto watch = gap_monitor({}, output.sink());
  tensors_event op;
  op.source.step = 1;
  const auto empty = [&](tensor_kind kind, const char* name) {
    tensor_record record;
    record.kind = kind;
    record.owner = std::make_shared<tensor_owner>(tensor_owner{name, ""});
    record.dimensions = 2;
    op.tensors.push_back(record);
  };
  empty(tensor_kind::activation, "a");
  empty(tensor_kind::activation_gradient, "a");
  empty(tensor_kind::parameter, "p");
  watch.see(op);
  step_event step;
  step.source.step = 1;
  watch.see(step);
  CHECK(output.steps[1]
        == table{{"gap/params/p/max", 0},
                 {"gap/params/p/mean", 0},
                 {"gap/params/p/var", 0}});
}

TEST_CASE("histograms are of all replicas, and of parameters once") {
  std::map<std::string, std::int64_t> values;
  trainer run(model_g(), options_g(2, 1, 2));
  run.attach(gap_monitor({.histogram = true},
                         callback_sink([&](const metrics_record& record) {
                           for (const auto& [name, all] : record.histograms)
                             values[name] += all.count;
                         })));
  run.step(source_g(2));
  run.finish_monitors();
  CHECK(values
        == std::map<std::string, std::int64_t>{{"gap/activations/fc", 8},
                                               {"gap/activations/head", 4},
                                               {"gap/activation_grads/fc", 8},
                                               {"gap/activation_grads/head", 4},
                                               {"gap/params/fc.weight", 4},
                                               {"gap/params/fc.bias", 2},
                                               {"gap/params/head.weight", 2},
                                               {"gap/grads/fc.weight", 4},
                                               {"gap/grads/fc.bias", 2},
                                               {"gap/grads/head.weight", 2}});
}

TEST_CASE("what is read whole is exact, also where a sample is asked for") {
  gap_run output;
  trainer run(model_g(), options_g(2, 2));
  run.attach(gap_monitor({.sample = 0.01}, output.sink()));
  run.step(source_g(2));
  run.finish_monitors();
  const auto& values = output.steps[1];
  CHECK(values.size() == 30 + 10 * 4);
  check(values, "activations/fc", 7.5, .5, 27.0625);
  check(values, "grads/fc.weight", 1.875, -.28125, 2.670573);
  for (const auto* what : {"mean", "var"})
    for (const auto* end : {"_low", "_high"})
      CHECK(values.at(fmt::format("gap/activations/fc/{}{}", what, end))
            == values.at(fmt::format("gap/activations/fc/{}", what)));
}

TEST_CASE("estimates of microbatches and replicas are one, with an interval") {
  gap_run output;
  const auto watch = gap_monitor({.sample = 0.01}, output.sink());
  tensor_record record;
  record.kind = tensor_kind::activation;
  record.owner = std::make_shared<tensor_owner>(tensor_owner{"a", ""});
  record.dimensions = 3;
  // Sums over two instances.
  record.sample =
    row_estimates{100, 10, 5, {3, 4, .1}, {}, {2, 0.04, .001}, {8, 0.16, .001}};
  for (const auto replica : {0, 1})
    for (const auto microbatch : {0, 1}) {
      tensors_event op;
      op.source.data_rank = replica;
      op.source.microbatch = microbatch;
      op.samples = 2;
      op.tensors = {record};
      watch.see(op);
    }
  watch.see(step_event{});
  const auto& values = output.steps[0];
  CHECK(values.size() == 10);
  check(values, "activations/a", 5, 1, 4);
  CHECK(values.at("gap/activations/a/nans") == 12);
  // Four sums of variance 0.04 over eight instances, and so on.
  const auto reach = 1.96 * std::sqrt(4 * 0.04) / 8;
  CHECK(values.at("gap/activations/a/mean_high")
        == Approx(1 + reach).epsilon(1e-3));
  CHECK(values.at("gap/activations/a/mean_low")
        == Approx(1 - reach).epsilon(1e-3));
  const auto ratio = std::exp(1.96 * std::sqrt(4 * 0.16) / 8 / 4);
  CHECK(values.at("gap/activations/a/var_high")
        == Approx(4 * ratio).epsilon(1e-3));
  CHECK(values.at("gap/activations/a/var_low")
        == Approx(4 / ratio).epsilon(1e-3));
}

namespace {

/// The first step of a model whose tensors are large enough to be sampled.
table sampled_step(double sample, std::int32_t ranks, const char* schedule) {
  gap_run output;
  auto options = options_g(1, 2);
  options.schedule =
    make_schedule(schedule, {.ranks = ranks, .microbatches = 2});
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data&) {
    return std::vector<loss_term>{{"loss", outputs.at(0).square().mean()}};
  };
  const auto layer = [] {
    return std::make_shared<small_linear>(
      at::randn({160, 160}, generator_at(1, 1)), at::Tensor{});
  };
  trainer run({{"first", layer}, {"second", layer}}, options);
  run.attach(gap_monitor({.sample = sample}, output.sink()));
  run.step(make_source([](std::int64_t index) {
    return microbatch_data{
      {at::randn({2, 100, 160}, generator_at(2, index))}, {}, {}, 2};
  }));
  run.finish_monitors();
  return output.steps[1];
}

}  // namespace

TEST_CASE("a sample is the same under every schedule, and near the truth") {
  const auto whole = sampled_step(0, 1, "1f1b");
  const auto sample = sampled_step(0.2, 1, "1f1b");
  CHECK(sampled_step(0.2, 2, "1f1b") == sample);
  CHECK(sampled_step(0.2, 2, "gpipe") == sample);
  int intervals = 0, held = 0;
  for (const auto& [name, value] : whole) {
    if (!sample.contains(name + "_low"))
      continue;
    ++intervals;
    const auto low = sample.at(name + "_low"), high = sample.at(name + "_high");
    held += low <= value && value <= high ? 1 : 0;
    CHECK(low < high);
  }
  CHECK(intervals == 16);
  CHECK(held >= 14);
}

TEST_CASE("every of less than one step is refused") {
  CHECK_THROWS_AS(gap_monitor({.every = 0}, callback_sink({})), error);
}
