// Strict order compared with ready_first on two ranks whose ops vary: measured
// times, and the simulator's for the same costs. Stages wait for as long as
// their ops cost, so each rank behaves like a device of its own. Prints a
// Markdown table.
//   orders [--steps N] [--seeds N] [--ms X] [--jitter SIGMA] [--slow FACTOR]
//          [--catalogue]
// With --catalogue: every schedule in strict order, measured and simulated.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "troupe/bench/idle_stage.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;

namespace {

/// How long an op of a stage takes, by kind, microbatch and slice.
using op_times = std::map<std::tuple<plan_op_kind, std::int32_t, std::int16_t>,
                          std::chrono::nanoseconds>;

class waiting_stage final : public idle_stage {
 public:
  explicit waiting_stage(op_times times) : times_(std::move(times)) {}

  op_outputs forward(microbatch_key key, tensor_lists, const microbatch_data&,
                     stage_states) override {
    wait_for(times_.at({plan_op_kind::forward, key.microbatch, key.slice}));
    return {{tensor_list(1)}};
  }
  op_outputs backward(op_kind kind, microbatch_key key, tensor_lists,
                      stage_states) override {
    wait_for(times_.at({to_plan_kind(kind), key.microbatch, key.slice}));
    return kind == op_kind::weight_backward ? op_outputs{}
                                            : op_outputs{{tensor_list(1)}};
  }

 private:
  op_times times_;
};

struct settings {
  int steps = 4;
  std::uint64_t seeds = 3;
  double ms = 4;  // a forward
  disturbance how{.of_rank = {1, 1}, .jitter = 0.3};
};

std::vector<stage> stages_of(const plan& of, const op_costs& costs,
                             const settings& how) {
  std::vector<op_times> times(of.placement.instances().size());
  for (std::uint32_t i = 0; i < of.ops.size(); ++i)
    if (const auto& op = of.ops[i]; is_compute(op.kind))
      times[of.placement.index_of(instance_of(op))]
           [{op.kind, op.microbatch, op.slice}] = std::chrono::nanoseconds(
             static_cast<std::int64_t>(costs.cost_of(i, op) * how.ms * 1e6));
  std::vector<stage> stages;
  for (auto& each : times) {
    const auto work = std::make_shared<waiting_stage>(std::move(each));
    stages.push_back({work, work});
  }
  return stages;
}

/// The shortest step of a run, in ms: the machine disturbs the others.
double measured(const std::shared_ptr<const plan>& of, const op_costs& costs,
                lane_order order, const settings& how) {
  auto options = options_of(*of, stages_of(*of, costs, how));
  options.execution.order = order;
  pipeline run(std::move(options));
  double least = 0;
  for (int i = 1; i <= how.steps; ++i) {
    step_settings step;
    step.step = i;
    const auto done = run.run(step, of, nullptr).summary;
    const auto ms = static_cast<double>(done.end - done.begin) * 1e-6;
    least = i == 1 ? ms : std::min(least, ms);
  }
  return least;
}

void compare(const char* name, std::int32_t stages_per_rank,
             const settings& options) {
  double paper[2] = {}, real[2] = {};
  const auto of = std::make_shared<const plan>(compile(make_schedule(
    name,
    {.ranks = 2, .stages_per_rank = stages_per_rank, .microbatches = 8})));
  for (std::uint64_t seed = 1; seed <= options.seeds; ++seed) {
    auto how = options;
    how.how.seed = seed;
    const auto costs = disturbed({}, *of, how.how);
    for (const auto order : {lane_order::strict, lane_order::ready_first}) {
      const auto at = static_cast<std::size_t>(order);
      paper[at] += simulate(*of, costs, order).makespan * how.ms;
      real[at] += measured(of, costs, order, how);
    }
  }
  fmt::print(
    "| {} | {} | {:.1f} | {:.1f} | {:.3f} x | {:.1f} | {:.1f} | "
    "{:.3f} x |\n",
    name, options.how.of_rank[1], paper[0], paper[1], paper[0] / paper[1],
    real[0], real[1], real[0] / real[1]);
  std::fflush(stdout);
}

/// Compares every schedule that trains, with equal costs of all ops.
void predict(const settings& how) {
  fmt::print(
    "| schedule | measured ms | on paper ms | measured / paper |\n"
    "|---|---|---|---|\n");
  double worst = 1;
  for (const auto& row : builtin_schedules()) {
    const auto lanes = on_two_ranks(row);
    if (!is_training(lanes))
      continue;
    const auto of = std::make_shared<const plan>(compile(lanes));
    const auto took = measured(of, {}, lane_order::strict, how);
    const auto paper = simulate(*of).makespan * how.ms;
    worst = std::max(worst, took / paper);
    fmt::print("| {} | {:.1f} | {:.1f} | {:.3f} |\n", row.name, took, paper,
               took / paper);
    std::fflush(stdout);
  }
  fmt::print("\nat most {:.1f} % more than on paper\n", 100 * (worst - 1));
}

}  // namespace

int main(int argc, char** argv) {
  settings how;
  double slow = 1.3;
  CLI::App app;
  app.add_option("--steps", how.steps);
  app.add_option("--seeds", how.seeds);
  app.add_option("--ms", how.ms);
  app.add_option("--jitter", how.how.jitter);
  app.add_option("--slow", slow);
  bool catalogue = false;
  app.add_flag("--catalogue", catalogue);
  CLI11_PARSE(app, argc, argv);
  if (catalogue) {
    predict(how);
    return 0;
  }
  fmt::print(
    "| schedule | slow rank | paper strict ms | ready_first ms | gain "
    "| measured strict ms | ready_first ms | gain |\n"
    "|---|---|---|---|---|---|---|---|\n");
  for (const double factor : {1.0, slow}) {
    how.how.of_rank = {1, factor};
    compare("1f1b", 1, how);
    compare("interleaved_1f1b", 2, how);
    compare("zb_v", 2, how);
  }
}
