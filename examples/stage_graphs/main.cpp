// Trains three models whose layers are no chain, each cut into four stages, and
// compares their parameters with those of the plain loop, which knows neither
// stages nor messages.

#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "graph_models.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/plan.hpp"
#include "troupe/train.hpp"

using namespace troupe;

namespace {

constexpr std::int32_t microbatches = 8;
constexpr int steps = 20;

bool equal(const parameter_list& a, const parameter_list& b) {
  return std::ranges::equal(a, b, [](const auto& one, const auto& other) {
    return one.first == other.first && at::equal(one.second, other.second);
  });
}

bool train(const graph_model& example) {
  trainer_options options;
  options.schedule =
    make_schedule("1f1b", {.ranks = 4, .microbatches = microbatches});
  options.numerics.loss = example.loss;
  trainer run(example.layers, options);
  fmt::print("{}: stages read {}\n", example.name, to_text(run.plan().graph));
  for (const auto& step : run.train(example.data, steps))
    if (step.source.step == 1 || step.source.step == steps)
      for (const auto& loss : step.losses)
        fmt::print("  step {} {} {:.4f}\n", step.source.step, loss.name,
                   loss.value);

  plain_options plain_settings;
  plain_settings.microbatches = microbatches;
  plain_settings.numerics.loss = example.loss;
  plain_loop plain(example.layers, plain_settings);
  for (std::int64_t i = 0; i < steps; ++i)
    plain.step(
      [&](std::int64_t k) { return example.data->at(i * microbatches + k); });
  const bool same = equal(run.parameters(), plain.parameters());
  fmt::print("  {} the plain loop's bits\n", same ? "has" : "lacks");
  return same;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    fmt::print("usage: stage_graphs\n");
    return std::string_view(argv[1]) == "--help" ? 0 : 2;
  }
  bool same = true;
  for (const auto& each : {encoder_decoder(), u_net(), two_towers()})
    same = train(each) && same;
  return same ? 0 : 1;
}
