// The most bytes of activations and gradients that a step holds, compared with
// the simulator, for every schedule that trains, as it is and with all
// activations offloaded that stay for three ops. Two ranks, whose stages make
// tensors of fixed sizes and wait for as long as their ops cost. Prints a
// Markdown table.
//   held_bytes [--steps N] [--ms X]

#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "troupe/bench/idle_stage.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;

namespace {

constexpr std::int64_t unit = 1 << 16;
/// What a forward keeps besides its input, what an I defers, and the sizes of
/// messages.
constexpr std::int64_t kept_bytes = 6 * unit, deferred = 4 * unit,
                       activation = 2 * unit, gradient = 3 * unit;

/// In units of time: odd figures that differ between stages, so that no two ops
/// end at once.
op_costs costs() {
  std::string text;
  for (int stage = 0; stage < 4; ++stage)
    for (const auto& [key, cost] : {std::pair{"f", 1.0}, std::pair{"b", 2.13},
                                    std::pair{"i", 1.17}, std::pair{"w", 0.89}})
      text += fmt::format("{}.{}={},", key, stage, cost * (1 + 0.07 * stage));
  return parse_costs(text);
}

/// The bytes of living tensors, over all threads.
class counted_bytes {
 public:
  static at::Tensor make(std::int64_t bytes) {
    auto* const memory = new std::vector<char>(static_cast<std::size_t>(bytes));
    const auto now = current() += bytes;
    auto most = peak().load();
    while (most < now && !peak().compare_exchange_weak(most, now)) {
    }
    return at::from_blob(
      memory->data(), {bytes},
      [memory, bytes](void*) {
        current() -= bytes;
        delete memory;
      },
      at::kByte);
  }
  static std::int64_t take_peak() { return peak().exchange(current()); }

 private:
  static std::atomic<std::int64_t>& current() {
    static std::atomic<std::int64_t> bytes{0};
    return bytes;
  }
  static std::atomic<std::int64_t>& peak() {
    static std::atomic<std::int64_t> bytes{0};
    return bytes;
  }
};

struct counted_state final : stage_state {
  explicit counted_state(std::int64_t bytes, at::Tensor also = {})
    : own(counted_bytes::make(bytes)), input(std::move(also)) {}
  at::Tensor own, input;
  bool had_input = input.defined();

  /// Host memory does not count.
  void offload(rank_device*) override { own = input = at::Tensor{}; }
  void reload(rank_device*) override {
    own = counted_bytes::make(kept_bytes);
    if (had_input)
      input = counted_bytes::make(activation);
  }
};

/// Keeps the forward's inputs, as a stage does.
class sized_stage final : public idle_stage {
 public:
  sized_stage(std::int32_t stage, bool last, double ms)
    : stage_(stage), last_(last), ms_(ms) {}

  op_outputs forward(microbatch_key, tensor_lists inputs,
                     const microbatch_data&, stage_states) override {
    op_outputs outputs;
    const auto read =
      inputs.empty() || inputs[0].empty() ? at::Tensor{} : inputs[0][0];
    outputs.states.context = std::make_shared<counted_state>(kept_bytes, read);
    if (!last_)
      outputs.tensors = {{counted_bytes::make(activation)}};
    inputs.clear();
    take_time(plan_op_kind::forward);
    return outputs;
  }
  op_outputs backward(op_kind kind, microbatch_key, tensor_lists,
                      stage_states states) override {
    op_outputs outputs;
    if (kind != op_kind::weight_backward && stage_ != 0)
      outputs.tensors = {{counted_bytes::make(gradient)}};
    take_time(to_plan_kind(kind));
    states = {};
    if (kind == op_kind::input_backward)
      outputs.states.deferred = std::make_shared<counted_state>(deferred);
    return outputs;
  }

 private:
  void take_time(plan_op_kind kind) const {
    const auto units = costs_.cost_of(0, {.kind = kind, .stage = stage_});
    wait_for(
      std::chrono::nanoseconds(static_cast<std::int64_t>(units * ms_ * 1e6)));
  }

  std::int32_t stage_;
  bool last_;
  op_costs costs_ = costs();
  double ms_;
};

pipeline pipeline_of(const plan& of, double ms) {
  std::vector<stage> stages;
  for (const auto& each : of.placement.instances()) {
    const auto work = std::make_shared<sized_stage>(
      each.stage, each.stage + 1 == of.stages(), ms);
    stages.push_back({work, work});
  }
  return pipeline(options_of(of, std::move(stages)));
}

/// The median of the steps' peaks: a step that the machine delays has another
/// one.
double measured(const std::shared_ptr<const plan>& of, int steps, double ms) {
  auto run = pipeline_of(*of, ms);
  std::vector<double> peaks;
  counted_bytes::take_peak();
  for (int i = 1; i <= steps; ++i) {
    step_settings step;
    step.step = i;
    run.run(step, of, nullptr);
    peaks.push_back(static_cast<double>(counted_bytes::take_peak()));
  }
  return median(std::move(peaks));
}

double on_paper(const plan& of) {
  value_sizes sizes;
  // A forward whose input is a message keeps it.
  sizes.usual = {.kept = kept_bytes + activation,
                 .deferred = deferred,
                 .activation = activation,
                 .gradient = gradient};
  sizes.of_stage[0] = sizes.usual;
  sizes.of_stage[0].kept = kept_bytes;
  return joint_peak_bytes(of, simulate(of, costs()), sizes);
}

}  // namespace

int main(int argc, char** argv) {
  int steps = 5;
  double ms = 4;
  CLI::App app;
  app.add_option("--steps", steps);
  app.add_option("--ms", ms);
  CLI11_PARSE(app, argc, argv);
  fmt::print(
    "| schedule | measured KiB | on paper KiB | measured / paper | offloading: "
    "measured KiB | on paper KiB | measured / paper |\n"
    "|---|---|---|---|---|---|---|\n");
  double worst = 0;
  for (const auto& row : builtin_schedules()) {
    const auto lanes = on_two_ranks(row);
    if (!is_training(lanes))
      continue;
    const auto whole = compile(lanes);
    fmt::print("| {} |", row.name);
    for (const auto& each : {whole, offloaded(whole, {.fraction = 1})}) {
      const auto of = std::make_shared<const plan>(each);
      const auto took = measured(of, steps, ms);
      const auto paper = on_paper(*of);
      worst = std::max(worst, std::abs(took / paper - 1));
      fmt::print(" {:.0f} | {:.0f} | {:.3f} |", took / 1024, paper / 1024,
                 took / paper);
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  fmt::print("\nat most {:.1f} % apart\n", 100 * worst);
}
