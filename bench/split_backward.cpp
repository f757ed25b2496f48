// The cost of a split backward compared with a full one: a stage of GPT blocks
// between two other stages runs its F, B, I and W alternately in one run, split
// by the layers and by the graph.
//   split_backward [--d-model N,...] [--blocks N] [--tokens N] [--rounds N]
// Prints a Markdown table: times of the median round in ms.

#include <ATen/ops/randn.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

#include "troupe/bench/measuring.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module/module_compute.hpp"

using namespace troupe;

namespace {

struct settings {
  std::int64_t width = 256;
  std::int64_t blocks = 2;
  std::int64_t tokens = 256;
  int rounds = 30;
};

class measured_stage {
 public:
  measured_stage(const settings& what, bool splits, weight_split split)
    : splits_(splits) {
    const auto layers = gpt(
      {.width = what.width, .layers = what.blocks + 2, .length = what.tokens});
    module_stage_options options;
    options.index = 1;
    options.numerics.backward_split = split;
    const layer_range middle{2, static_cast<std::int32_t>(2 + what.blocks)};
    compute_ = std::make_unique<module_compute>(
      std::make_shared<layer_sequence>(layers, middle), options);
    step_settings step;
    step.splits_backward = splits;
    compute_->begin_step(step);
    input_ = at::randn({1, what.tokens, what.width});
    gradient_ = at::randn_like(input_);
  }

  void round() {
    stage_states states;
    timed("f",
          [&] { states = compute_->forward({}, {{input_}}, {}, {}).states; });
    if (!splits_)
      return timed("b", [&] {
        compute_->backward(op_kind::backward, {}, {{gradient_}},
                           std::move(states));
      });
    timed("i", [&] {
      states = compute_
                 ->backward(op_kind::input_backward, {}, {{gradient_}},
                            std::move(states))
                 .states;
    });
    timed("w", [&] {
      compute_->backward(op_kind::weight_backward, {}, {}, std::move(states));
    });
  }

  double median_of(const std::string& op) { return median(times_[op]); }

 private:
  template <class Work>
  void timed(const std::string& op, const Work& work) {
    const auto begin = now_ns();
    work();
    times_[op].push_back(static_cast<double>(now_ns() - begin) * 1e-6);
  }

  bool splits_;
  std::unique_ptr<module_compute> compute_;
  at::Tensor input_, gradient_;
  std::map<std::string, std::vector<double>> times_;
};

void print_row(const settings& what) {
  measured_stage full(what, false, weight_split::layers);
  measured_stage layers(what, true, weight_split::layers);
  measured_stage graph(what, true, weight_split::graph);
  for (int i = 0; i < what.rounds; ++i)
    for (auto* each : {&full, &layers, &graph})
      each->round();
  const auto b = full.median_of("b");
  fmt::print("| {} | {:.2f} |", what.width, b);
  for (auto* each : {&layers, &graph}) {
    const auto i = each->median_of("i"), w = each->median_of("w");
    fmt::print(" {:.2f} | {:.2f} | {:.3f} | {:.2f} |", i, w, (i + w) / b,
               i / b);
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  settings what;
  std::vector<std::int64_t> widths{64, 256, 512};
  CLI::App app{"what a split backward costs beside a full one"};
  app.add_option("--d-model", widths)
    ->delimiter(',')
    ->check(CLI::Range(8, 1 << 14));
  app.add_option("--blocks", what.blocks)->check(CLI::Range(1, 100));
  app.add_option("--tokens", what.tokens)->check(CLI::Range(1, 1 << 16));
  app.add_option("--rounds", what.rounds)->check(CLI::Range(1, 10000));
  CLI11_PARSE(app, argc, argv);
  set_intra_op_threads(1);
  fmt::print(
    "| d_model | B | I, layers | W, layers | (I + W) / B | I / B | I, graph "
    "| W, graph | (I + W) / B | I / B "
    "|\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto width : widths) {
    what.width = width;
    print_row(what);
  }
  return 0;
}
