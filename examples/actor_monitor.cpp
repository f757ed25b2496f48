// A monitor that is a CAF actor: it prints the loss of each step.

#include <ATen/ops/randint.h>
#include <fmt/format.h>

#include "troupe/actors/monitoring/actor_monitor.hpp"
#include "troupe/train.hpp"

using namespace troupe;

caf::behavior loss_printer(caf::event_based_actor*) {
  return {[](const monitor_event& message) {
    if (const auto* step = std::get_if<step_event>(message.what.get()))
      fmt::print("step {} loss {:.4f}\n", step->source.step,
                 step->losses[0].value);
  }};
}

int main() {
  caf::actor_system_config config;
  caf::actor_system system(config);
  const auto printer = system.spawn(loss_printer);

  const auto text = make_source([](std::int64_t index) {
    const auto ids =
      at::randint(256, {2, 17}, generator_at(1, index), at::kLong);
    return microbatch_data{{ids.slice(1, 0, 16)}, {ids.slice(1, 1)}, {}, 32};
  });
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 4});
  trainer run(gpt({.width = 32, .layers = 2, .heads = 2, .length = 16}),
              options);
  run.attach(actor_monitor("losses", printer, {.steps = true}));
  for ([[maybe_unused]] const auto& step : run.train(text, 5)) {
  }
  run.finish_monitors();
  caf::anon_send_exit(printer, caf::exit_reason::user_shutdown);
}
