// A custom monitor: the largest magnitude of each block's MLP output and of its
// gradient, while the model trains.

#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "troupe/monitor.hpp"
#include "troupe/train.hpp"

using namespace troupe;

monitor largest_magnitudes() {
  auto largest = std::make_shared<std::map<std::string, double>>();
  monitor printer;
  printer.name = "largest magnitudes";
  printer.wants = {
    .steps = false,
    .tensors = tensor_kind::activation | tensor_kind::activation_gradient,
    .names = "blocks.*.mlp",
    .every = 5};
  printer.see = [largest](const event& what) {
    if (const auto* op = std::get_if<tensors_event>(&what))
      for (const auto& record : op->tensors) {
        auto& value = (*largest)[record.owner->name + ' ' + part_text(record)];
        value = std::max(value, record.statistics.max_abs);
      }
  };
  printer.finish = [largest] {
    for (const auto& [name, value] : *largest)
      fmt::print("{}: at most {:.3g}\n", name, value);
  };
  return printer;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    fmt::print("usage: own_monitor\n");
    return std::string_view(argv[1]) == "--help" ? 0 : 2;
  }
  const gpt_options sizes{.width = 32, .layers = 4, .heads = 2, .length = 16};
  const auto random_text = make_source([&](std::int64_t index) {
    const auto ids = at::randint(256, {2, sizes.length + 1},
                                 generator_at(1, index), at::kLong);
    return microbatch_data{{ids.slice(1, 0, sizes.length).contiguous()},
                           {ids.slice(1, 1).contiguous()},
                           {},
                           2 * sizes.length};
  });
  trainer_options options;
  options.schedule = make_schedule(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 4});
  trainer run(gpt(sizes), options);
  run.attach(largest_magnitudes());
  for (const auto& step : run.train(random_text, 10))
    fmt::print("step {} loss {:.4f}\n", step.source.step, step.losses[0].value);
  run.finish_monitors();
}
