// A custom schedule in the DSL: 1F1B that warms up one forward deeper on every
// rank but the last, to hide slow messages. Its plan is verified, simulated and
// drawn beside 1F1B's, then used to train a custom model.

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <string_view>

#include "troupe/plan.hpp"
#include "troupe/train.hpp"

using namespace troupe;

void show(const schedule& order, const op_costs& costs) {
  const auto plan = compile(order);
  const auto paper = simulate(plan, costs);
  fmt::print("{}: {}, {:.1f} forwards long, {} in flight on rank 0\n{}\n",
             order.name, verify(plan).text(), paper.makespan,
             paper.in_flight[0], draw_terminal(to_timeline(plan, paper)));
}

int main(int argc, char** argv) {
  if (argc > 1) {
    fmt::print("usage: own_schedule\n");
    return std::string_view(argv[1]) == "--help" ? 0 : 2;
  }
  const schedule_shape shape{
    .ranks = 4, .stages_per_rank = 1, .microbatches = 8};
  const auto deeper = schedule::build(
    shape,
    [](lane_builder& rank) {
      const auto distance = rank.distance_to_last();
      rank.forward(first(distance == 0 ? 0 : distance + 1));
      rank.repeat_one_forward_one_backward();
      rank.backward(rest());
    },
    "deeper_1f1b");
  op_costs slow_messages;
  slow_messages.message = 0.5;
  show(make_schedule("1f1b", shape), slow_messages);
  show(deeper, slow_messages);

  model layers;
  for (int i = 0; i < 8; ++i)
    layers.push_back(as_layer(fmt::format("dense.{}", i), [] {
      return torch::nn::Sequential(torch::nn::Linear(16, 16),
                                   torch::nn::ReLU());
    }));
  trainer_options options;
  options.schedule = deeper;
  options.numerics.optimizer = sgd{.learning_rate = 0.1};
  options.numerics.loss = mean_loss("mse", [](auto& output, auto& target) {
    return at::mse_loss(output, target);
  });
  const auto source = make_source([](std::int64_t index) {
    const auto x = at::rand({4, 16}, generator_at(1, index));
    return microbatch_data{{x}, {x}, {}, 4};
  });
  trainer run(layers, options);
  for (const auto& step : run.train(source, 5))
    fmt::print("step {} mse {:.4f}\n", step.source.step, step.losses[0].value);
}
