#include <ATen/ops/randint.h>

#include <cstdio>

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/schedules/builtin.hpp"

int main() {
  const auto tokens = troupe::make_source([](std::int64_t) {
    return troupe::microbatch_data{{at::randint(32, {2, 8}, at::kLong)},
                                   {at::randint(32, {2, 8}, at::kLong)},
                                   {},
                                   16};
  });
  const auto model = troupe::gpt(
    {.width = 16, .layers = 2, .heads = 2, .length = 8, .vocabulary = 32});
  troupe::trainer_options options;
  options.schedule =
    troupe::make_schedule("1f1b", {.ranks = 2, .microbatches = 4});
  troupe::trainer run{model, options};
  run.attach(troupe::progress_monitor({.steps = 2}));
  for (const auto& step : run.train(tokens, 2))
    std::printf("loss %.3f\n", step.losses.front().value);
}
