// Microseconds between the moment when an op could start and its start:
// Linear(8, 8) stages, 64 microbatches of one row, as in the harness of
// bench/peers/peer_overhead.py. One JSON object on stdout.
//   overhead [--ranks P] [--steps N] [--schedule NAME] [--stages-per-rank V]
//            [--cuda]
// On a GPU (--cuda) these are the host's times, from the end of one op's launch
// to the beginning of the next one's. "device" is how long a device that is
// free and has all inputs takes from the beginning of a launch (of which a CPU
// has none) to the beginning of the work.

#include <ATen/ops/linear.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "troupe/actors/trainer.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using json = nlohmann::ordered_json;

namespace {

struct settings {
  std::int32_t ranks = 2;
  std::int32_t stages_per_rank = 1;
  std::string schedule = "1f1b";
  std::int32_t microbatches = 64;
  int steps = 40;
  int warmup = 5;
  bool cuda = false;
  std::vector<std::shared_ptr<accelerator>> devices = {};
};

struct tiny_layer final : stage_module {
  tiny_layer() {
    weight = register_parameter("weight", at::randn({8, 8}) * 0.1);
    bias = register_parameter("bias", at::zeros({8}));
  }
  tensor_list forward(const tensor_list& inputs) override {
    return {at::linear(inputs[0], weight, bias)};
  }
  at::Tensor weight, bias;
};

model layers_of(std::int32_t count) {
  model layers;
  for (std::int32_t i = 0; i < count; ++i)
    layers.push_back({fmt::format("layers.{}", i),
                      [] { return std::make_shared<tiny_layer>(); }});
  return layers;
}

std::vector<loss_term> mean_square(const tensor_list& outputs,
                                   const microbatch_data& data) {
  return {{"mse", at::mse_loss(outputs[0], data.targets[0])}};
}

source_pointer one_row() {
  const auto x = at::randn({1, 8}), y = at::randn({1, 8});
  return make_source([=](std::int64_t) {
    return microbatch_data{{x}, {y}, {}, 1};
  });
}

json spread(const std::vector<double>& values) {
  return {{"count", values.size()},
          {"p50", quantile(values, 0.5)},
          {"p90", quantile(values, 0.9)},
          {"p99", quantile(values, 0.99)}};
}

struct gaps {
  std::vector<double> within;  // the last input came from the same rank
  std::vector<double> across;  // ... from another rank
  std::vector<double> device;  // from the launch to the work
};

/// When the host began an op; on a CPU it runs the op itself.
std::int64_t host_begin(const op_record& op) {
  return op.host_begin > 0 ? op.host_begin : op.begin;
}
std::int64_t host_end(const op_record& op) {
  return op.host_end > 0 ? op.host_end : op.end;
}

/// Overhead of the compute ops of a step: from the end of the rank's previous
/// op, or from the sending of the op's last input, whichever is later.
void add_gaps(const plan& plan, const step_report& report, gaps& target) {
  for (const auto& rank : report.ops) {
    for (std::size_t i = 1; i < rank.ops.size(); ++i) {
      const auto& op = rank.ops[i];
      if (!is_compute(plan.ops[op.op].kind))
        continue;
      auto free = host_end(rank.ops[i - 1]);
      for (auto k = i; k-- > 0;)
        if (is_compute(plan.ops[rank.ops[k].op].kind)) {
          free = host_end(rank.ops[k]);
          break;
        }
      const auto source = std::max(free, op.ready);
      const auto us = static_cast<double>(host_begin(op) - source) * 1e-3;
      (op.ready > free ? target.across : target.within).push_back(us);
    }
  }
}

/// For a step's ops whose inputs come from other ranks, or that have none.
void add_device_gaps(const plan& plan, const step_report& report,
                     gaps& target) {
  std::map<std::uint32_t, const op_record*> records;
  for (const auto& rank : report.ops)
    for (const auto& op : rank.ops)
      if (is_compute(plan.ops[op.op].kind))
        records.emplace(op.op, &op);
  std::map<std::uint32_t, std::int64_t> inputs_end;
  for (const auto& message : plan.messages)
    inputs_end[message.consumer] = records.at(message.producer)->end;
  const op_record* before = nullptr;
  for (const auto& [index, op] : records) {
    if (before && plan.rank_of(before->op) == plan.rank_of(index)) {
      const auto start =
        std::max({before->end, inputs_end[index], op->host_begin});
      target.device.push_back(static_cast<double>(op->begin - start) * 1e-3);
    }
    before = op;
  }
}

double seconds_since(std::int64_t begin) {
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

/// Microseconds per op of the same work in a plain loop.
double floor_of(const settings& use) {
  plain_options options;
  options.microbatches = use.microbatches;
  options.numerics.loss = mean_square;
  options.numerics.optimizer = sgd{};
  if (use.cuda)
    options.device =
      std::make_shared<rank_device>(use.devices.at(0), overlap_options{});
  plain_loop loop(layers_of(use.ranks * use.stages_per_rank), options);
  const auto source = one_row();
  std::vector<double> times;
  for (int i = 0; i < use.steps + use.warmup; ++i) {
    const auto begin = now_ns();
    loop.step([&](std::int64_t k) { return source->at(k); });
    times.push_back(seconds_since(begin) * 1e6);
  }
  times.erase(times.begin(), times.begin() + use.warmup);
  return quantile(times, 0.5)
         / (2.0 * use.ranks * use.stages_per_rank * use.microbatches);
}

json measure(const settings& use) {
  trainer_options options;
  options.schedule = make_schedule(
    use.schedule, {use.ranks, use.stages_per_rank, use.microbatches});
  options.numerics.loss = mean_square;
  options.numerics.optimizer = sgd{};
  options.devices = use.devices;
  trainer run(layers_of(use.ranks * use.stages_per_rank), options);
  const auto source = one_row();
  std::vector<double> times;
  gaps measured;
  for (int i = 0; i < use.steps + use.warmup; ++i) {
    const auto begin = now_ns();
    const auto report = run.step(source);
    if (i < use.warmup)
      continue;
    times.push_back(seconds_since(begin) * 1e6);
    add_gaps(run.plan(), report, measured);
    add_device_gaps(run.plan(), report, measured);
  }
  const auto actions =
    2.0 * use.stages_per_rank * use.microbatches;  // per rank
  const auto floor = floor_of(use);
  return {
    {"schedule", use.schedule},
    {"device", use.cuda ? describe(use.devices[0]->description()) : "cpu"},
    {"ranks", use.ranks},
    {"us_per_action", quantile(times, 0.5) / actions},
    {"floor_us_per_action", floor},
    {"overhead_us_per_action", quantile(times, 0.5) / actions - floor},
    {"within_rank_us", spread(measured.within)},
    {"across_ranks_us", spread(measured.across)},
    {"device_us", spread(measured.device)}};
}

void print_table(settings use) {
  fmt::print(
    "| schedule | within p50 | p90 | p99 | across p50 | p90 | p99 "
    "| overhead |\n|---|---|---|---|---|---|---|---|\n");
  for (const auto& [schedule, stages] :
       {std::pair{"1f1b", 1}, std::pair{"interleaved_1f1b", 2}}) {
    use.schedule = schedule;
    use.stages_per_rank = stages;
    const auto result = measure(use);
    fmt::print("| {}, V = {} |", schedule, stages);
    for (const auto* where : {"within_rank_us", "across_ranks_us"})
      for (const auto* quantile : {"p50", "p90", "p99"})
        fmt::print(" {:.2f} |", result[where][quantile].get<double>());
    fmt::print(" {:.2f} |\n", result["overhead_us_per_action"].get<double>());
  }
}

}  // namespace

int main(int argc, char** argv) {
  settings use;
  CLI::App app{"overhead of an op"};
  app.add_option("--ranks", use.ranks);
  app.add_option("--stages-per-rank", use.stages_per_rank);
  app.add_option("--schedule", use.schedule);
  app.add_option("--microbatches", use.microbatches);
  app.add_option("--steps", use.steps);
  bool table = false;
  app.add_flag("--table", table, "Markdown, of 1f1b and interleaved_1f1b");
  app.add_flag("--cuda", use.cuda, "on the first GPU, which all ranks share");
  CLI11_PARSE(app, argc, argv);
  return run_benchmark([&] {
    use.devices = one_gpu(use.cuda);
    if (table)
      print_table(use);
    else
      fmt::print("{}\n", measure(use).dump());
  });
}
