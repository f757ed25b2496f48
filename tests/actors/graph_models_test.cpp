// Models whose layers are no chain, compared with the plain loop.
#include "../../examples/stage_graphs/graph_models.hpp"

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tanh.h>
#include <catch2/catch_test_macros.hpp>

#include <map>

#include "../engine/transport/joined_meshes.hpp"
#include "../says.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

std::vector<graph_model> all_models() {
  return {encoder_decoder(), u_net(), two_towers()};
}

trainer_options options_of(const graph_model& what, const small_case& how) {
  auto options = options_for(how);
  options.numerics.loss = what.loss;
  return options;
}

struct trained {
  parameter_list parameters;
  double loss = 0;  // the sum of all
};

double sum_of(const std::vector<named_value>& losses) {
  double sum = 0;
  for (const auto& each : losses)
    sum += each.value;
  return sum;
}

trained train_plain(const graph_model& what, const small_case& how, int steps) {
  auto options = plain_options_for(how);
  options.numerics.loss = what.loss;
  plain_loop plain(what.layers, options);
  const auto a_step = std::int64_t{how.microbatches} * how.data_parallel;
  trained result;
  for (std::int64_t i = 0; i < steps; ++i)
    result.loss =
      plain.step([&](std::int64_t k) { return what.data->at(i * a_step + k); })
        .loss;
  result.parameters = plain.parameters();
  return result;
}

void check_case(const graph_model& what, const small_case& how) {
  INFO(what.name << ' ' << describe(how));
  trainer run(what.layers, options_of(what, how));
  double loss = 0;
  for (const auto& step : run.train(what.data, 3))
    loss = sum_of(step.losses);
  const auto expected = train_plain(what, how, 3);
  CHECK(first_difference(run.parameters(), expected.parameters) == "");
  CHECK(std::abs(loss - expected.loss) < 1e-12 * expected.loss);
}

}  // namespace

TEST_CASE("graphs of stages train the plain loop's bits") {
  const std::vector<std::string> schedules{"gpipe", "1f1b", "eager_1f1b"};
  const std::vector<std::string> looped{"interleaved_1f1b", "breadth_first",
                                        "depth_first"};
  for (const auto& what : all_models()) {
    for (const auto& name : schedules)
      for (const std::int32_t ranks : {1, 2, 3, 4})
        check_case(what, {.schedule = name, .ranks = ranks});
    for (const auto& name : looped)
      for (const std::int32_t ranks : {1, 2, 3})
        check_case(what, {.schedule = name,
                          .ranks = ranks,
                          .stages_per_rank = 2,
                          .microbatches = 2 * ranks});
    check_case(what, {.ranks = 4, .recompute = true, .clip = 0.5});
    check_case(what, {.ranks = 4, .autocast = at::kBFloat16});
    check_case(what, {.ranks = 2, .data_parallel = 2, .use_sgd = true});
    check_case(what, {.schedule = "interleaved_1f1b",
                      .stages_per_rank = 2,
                      .order = lane_order::ready_first});
  }
}

TEST_CASE("graphs of stages train the same bits over links") {
  for (const auto& what : all_models())
    for (const std::int32_t processes : {2, 4}) {
      INFO(what.name << " in " << processes << " processes");
      const small_case how{.ranks = 4};
      joined_meshes meshes(processes);
      parameter_list all;
      tensor_list inferred, alone;
      const auto errors = in_all(meshes, [&](const auto& job) {
        auto options = options_of(what, how);
        options.job = job;
        trainer run(what.layers, options);
        for (const auto& step : run.train(what.data, 3))
          static_cast<void>(step);
        auto gathered = run.gather_parameters();
        auto outputs = run.infer(what.data->at(0).inputs);
        if (!job->place().leads())
          return;
        all = std::move(gathered);
        inferred = std::move(outputs);
      });
      CHECK(errors
            == std::vector<std::string>(static_cast<std::size_t>(processes)));
      const auto expected = train_plain(what, how, 3).parameters;
      CHECK(first_difference(all, expected) == "");
      trainer run(what.layers, options_of(what, how));
      run.load(expected, "the plain loop");
      alone = run.infer(what.data->at(0).inputs);
      REQUIRE(inferred.size() == alone.size());
      CHECK(first_difference({{"output", inferred[0]}}, {{"output", alone[0]}})
            == "");
    }
}

TEST_CASE("a skip across stages moves its bytes once") {
  const auto what = u_net();
  const small_case how{.ranks = 4};
  auto options = options_of(what, how);
  options.split = split_by_hand(8, {2, 2, 2, 2});
  trainer run(what.layers, options);
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> bytes;
  monitor watch;
  watch.name = "bytes";
  watch.wants.messages = true;
  watch.see = [&](const event& event) {
    const auto* received = std::get_if<messages_event>(&event);
    if (!received)
      return;
    for (const auto& each : received->messages) {
      const auto& message =
        run.plan().messages[static_cast<std::size_t>(each.message)];
      bytes[{run.plan().ops[message.send].stage,
             run.plan().ops[message.receive].stage}] += each.bytes;
    }
  };
  run.attach(watch);
  run.step(what.data);
  run.finish_monitors();
  // 4 rows of 6 positions in fp32, 4 microbatches; two layers a stage.
  const auto of = [](std::int64_t width) { return 4 * 6 * 4 * width * 4; };
  using edge = std::pair<std::int32_t, std::int32_t>;
  const std::map<edge, std::int64_t> expected{
    {{0, 1}, of(8)},  {{0, 2}, of(8)},  {{0, 3}, of(12)}, {{1, 2}, of(8)},
    {{2, 3}, of(12)}, {{1, 0}, of(8)},  {{2, 0}, of(8)},  {{3, 0}, of(12)},
    {{2, 1}, of(8)},  {{3, 2}, of(12)},
  };
  CHECK(bytes == expected);
}

namespace {

/// The product of all inputs and a parameter.
struct product_layer final : stage_module {
  explicit product_layer(std::int64_t width) {
    weight = register_parameter("weight", at::ones({width}) * 0.7);
  }
  tensor_list forward(const tensor_list& inputs) override {
    auto product = at::tanh(inputs[0]) * weight;
    for (std::size_t i = 1; i < inputs.size(); ++i)
      product = product + at::tanh(inputs[i] * product);
    return {product};
  }
  at::Tensor weight;
};

layer product(std::string name, std::vector<layer_output> reads,
              std::int64_t width = 4) {
  return {std::move(name),
          [width] { return std::make_shared<product_layer>(width); },
          std::move(reads)};
}

graph_model product_model(model layers) {
  graph_model result;
  result.name = "products";
  result.layers = std::move(layers);
  result.loss = [](const tensor_list& outputs, const microbatch_data& data) {
    return std::vector<loss_term>{
      {"loss",
       at::mse_loss(outputs[0], data.targets[0].expand_as(outputs[0]))}};
  };
  result.data = make_source([](std::int64_t index) {
    microbatch_data data;
    data.inputs = {at::ones({2, 4}) * (0.1 + 0.3 * static_cast<double>(index))};
    data.targets = {at::ones({1})};
    return data;
  });
  return result;
}

}  // namespace

TEST_CASE("a layer may read a tensor several times") {
  const auto what = product_model(
    {product("x", {}), product("a", {{"x"}, {"x"}, {"x"}}),
     product("b", {{"a"}, {"x"}, {"x"}}), product("c", {{"x"}, {"b"}, {"x"}})});
  for (const std::int32_t ranks : {1, 2, 3, 4})
    check_case(what, {.ranks = ranks});
}

TEST_CASE("large tensors may follow small ones of another stage") {
  const auto width = std::int64_t{5} << 20;  // 20 MiB
  auto what = product_model(
    {product("small", {}, 1), product("large", {{"small"}}, 1),
     product("both", {{"small"}, {"large"}}, 1), product("out", {}, 1)});
  what.layers[1].make = [width] {
    return std::make_shared<product_layer>(width);
  };
  what.data = make_source([](std::int64_t) {
    microbatch_data data;
    data.inputs = {at::ones({1})};
    data.targets = {at::ones({1})};
    return data;
  });
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_of(what, {.ranks = 4, .microbatches = 1});
    options.split = split_by_hand(4, {1, 1, 1, 1});
    options.job = job;
    trainer run(what.layers, options);
    run.step(what.data);
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("the last layer's loss is reported first, others by their layer") {
  const auto what = two_towers();
  trainer run(what.layers, options_of(what, {.ranks = 3}));
  const auto losses = run.step(what.data).summary.losses;
  REQUIRE(losses.size() == 2);
  CHECK(losses[0].name == "loss");
  CHECK(losses[1].name == "left.1.loss");
  auto unnamed = what.layers;
  unnamed[1].name.clear();
  CHECK_THROWS_MATCHES(
    require_legal(unnamed), error,
    says("layer 1 has a loss and no name to report it under"));
}

TEST_CASE("an output that no loss reads gives no gradient, not zeros") {
  struct two_heads final : stage_module {
    two_heads() {
      used = register_parameter("used", at::ones({4}));
      unused = register_parameter("unused", at::ones({4}));
    }
    tensor_list forward(const tensor_list& inputs) override {
      return {inputs[0] * used, inputs[0] * unused};
    }
    at::Tensor used, unused;
  };
  struct first_only final : stage_module {
    tensor_list forward(const tensor_list& inputs) override {
      return {inputs[0]};
    }
  };
  graph_model what;
  what.name = "two heads";
  what.layers = {{"heads", [] { return std::make_shared<two_heads>(); }},
                 {"pass", [] { return std::make_shared<first_only>(); }}};
  what.loss = [](const tensor_list& outputs, const microbatch_data& data) {
    return std::vector<loss_term>{
      {"loss", at::mse_loss(outputs[0], data.targets[0])}};
  };
  what.data = make_source([](std::int64_t index) {
    microbatch_data data;
    data.inputs = {at::ones({2, 4}) * static_cast<double>(index)};
    data.targets = {at::ones({2, 4})};
    return data;
  });
  check_case(what, {.ranks = 2});
  trainer run(what.layers, options_of(what, {.ranks = 2}));
  run.step(what.data);
  for (const auto& [name, value] : run.parameters())
    CHECK(value.grad().defined() == (name == "heads.used"));
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto options = options_of(what, {.ranks = 2});
    options.job = job;
    trainer linked(what.layers, options);
    linked.step(what.data);
    for (const auto& [name, value] : linked.parameters())
      expect(value.grad().defined() == (name == "heads.used"), "a gradient");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("a plan of a graph model can be written, read and run") {
  const auto what = encoder_decoder();
  const small_case how{.ranks = 4};
  trainer first(what.layers, options_of(what, how));
  auto options = options_of(what, how);
  options.plan =
    std::make_shared<const plan>(plan_from_text(to_text(first.plan())));
  trainer second(what.layers, options);
  first.step(what.data);
  second.step(what.data);
  CHECK(first_difference(first.parameters(), second.parameters()) == "");
  auto chain = options_of(u_net(), how);
  chain.plan = options.plan;
  CHECK_THROWS_AS(trainer(u_net().layers, chain), error);
}
