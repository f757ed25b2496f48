// A rank becomes slow in the middle of a run: how long steps take before and
// after that, once the run has found another order by itself, and with the best
// order from the start. Layers wait for as long as their ops cost, so each rank
// behaves like a device of its own. Prints a Markdown table.
//   replan [--ranks P] [--microbatches M] [--ms X] [--slow FACTOR]
//          [--schedules 1f1b,gpipe]

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "troupe/actors/trainer.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/search/search.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/monitors/live/replanner.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

struct settings {
  std::int32_t ranks = 2;
  std::int32_t microbatches = 4;
  double ms = 8;  // F, I and W
  double slow = 2;
  std::int32_t slow_rank = 1;
};

/// Steps of a run: before a rank becomes slow, until another order must have
/// been taken up, and after that.
constexpr int even_steps = 6, search_steps = 100, last_steps = 6;

std::chrono::nanoseconds nanoseconds_of(double ms) {
  return std::chrono::nanoseconds(std::int64_t(ms * 1e6));
}

struct waiting_function : torch::autograd::Function<waiting_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& input, const at::Tensor& weight,
                            double ms) {
    note_store(*context, {weight});
    context->save_for_backward({weight});
    context->saved_data["ms"] = ms;
    wait_for(nanoseconds_of(ms));
    return input.clone();
  }
  static torch::autograd::variable_list backward(
    torch::autograd::AutogradContext* context,
    const torch::autograd::variable_list& gradients) {
    const auto weight = context->get_saved_variables()[0];
    const auto ms = context->saved_data["ms"].toDouble();
    wait_for(nanoseconds_of(ms));
    add_weight_gradients(*context, [weight, ms] {
      wait_for(nanoseconds_of(ms));
      accumulate_gradient(weight, at::zeros_like(weight));
    });
    return {gradients[0], {}, {}};
  }
};

class waiting_layer final : public stage_module {
 public:
  explicit waiting_layer(double ms) : ms_(ms) {
    weight_ = register_parameter("weight", at::zeros({1}));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {waiting_function::apply(inputs[0], weight_, ms_)};
  }

 private:
  double ms_;
  at::Tensor weight_;
};

model layers_of(const settings& how) {
  model layers;
  for (std::int32_t i = 0; i < how.ranks; ++i)
    layers.push_back({.name = fmt::format("layer{}", i), .make = [&how] {
                        return std::make_shared<waiting_layer>(how.ms);
                      }});
  return layers;
}

trainer_options options_of(const settings& how, schedule lanes, bool slow,
                           std::int64_t from) {
  trainer_options options;
  options.schedule = std::move(lanes);
  options.numerics.loss = [](const tensor_list& outputs,
                             const microbatch_data&) {
    return std::vector<loss_term>{{"loss", outputs[0].sum()}};
  };
  options.numerics.optimizer = sgd{};
  if (slow) {
    options.execution.slow.assign(std::size_t(how.ranks), 1);
    options.execution.slow[std::size_t(how.slow_rank)] = how.slow;
    options.execution.slow_from = from;
  }
  return options;
}

/// The shortest of some steps, in ms: the machine disturbs the others.
double shortest(trainer& run, int steps) {
  const auto source = make_source([](std::int64_t) {
    microbatch_data data;
    data.inputs = {at::zeros({1})};
    return data;
  });
  double least = 0;
  for (int i = 0; i < steps; ++i) {
    const auto done = run.step(source).summary;
    const auto ms = double(done.end - done.begin) * 1e-6;
    least = i == 0 ? ms : std::min(least, ms);
  }
  return least;
}

/// The costs with the slow rank.
op_costs costs_of(const settings& how) {
  op_costs costs;
  for (std::int32_t stage = 0; stage < how.ranks; ++stage) {
    auto row = op_costs::default_costs();
    for (auto& cost : row)
      cost *= how.ms * (stage == how.slow_rank ? how.slow : 1);
    costs.of_stage.push_back(row);
  }
  return costs;
}

void compare(const std::string& name, const settings& how) {
  const auto lanes =
    make_schedule(name, {.ranks = how.ranks, .microbatches = how.microbatches});
  const auto layers = layers_of(how);
  trainer run(layers, options_of(how, lanes, true, even_steps + 1));
  const replanner orders(run, 5);
  const auto before = shortest(run, even_steps);
  const auto slow = shortest(run, 3);
  run.attach(orders.watch());
  shortest(run, search_steps - 3);
  const auto replanned = shortest(run, last_steps);

  const auto search_result = search({.placement = lanes.placement,
                                     .microbatches = how.microbatches,
                                     .costs = costs_of(how),
                                     .barrier = true});
  trainer best(layers, options_of(how, search_result.found, true, 1));
  const auto best_step = shortest(best, last_steps);
  fmt::print(
    "| {} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.3f} |\n",
    name, before, slow, replanned, best_step, search_result.makespan,
    search_result.lower_bound, replanned / best_step);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  settings how;
  std::vector<std::string> schedules{"gpipe", "1f1b", "zb_h1"};
  CLI::App app;
  app.add_option("--ranks", how.ranks);
  app.add_option("--microbatches", how.microbatches);
  app.add_option("--ms", how.ms);
  app.add_option("--slow", how.slow);
  app.add_option("--schedules", schedules)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  fmt::print(
    "| schedule | even ms | slow rank ms | replanned ms | best order ms "
    "| on paper ms | lower bound ms | replanned / best |\n"
    "|---|---|---|---|---|---|---|---|\n");
  for (const auto& name : schedules)
    compare(name, how);
}
