// A CAF program with its own messages and actor system, which trains.
//
// The environment variable USES_TRAINER chooses another program: a trainer that
// `exit` destroys (static), a thread that calls exit(3) during a step (exit), a
// loss that calls exit(4) (inside), a trainer before main() begins (early).
#include <ATen/ops/randint.h>

#include <caf/all.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "troupe/actors/monitoring/actor_monitor.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/schedules/builtin.hpp"

struct question {
  int number = 0;
};
template <class Inspector>
bool inspect(Inspector& f, question& request) {
  return f.object(request).fields(f.field("number", request.number));
}

CAF_BEGIN_TYPE_ID_BLOCK(package_test, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(package_test, (question))
CAF_END_TYPE_ID_BLOCK(package_test)

troupe::source_pointer random_tokens() {
  return troupe::make_source([](std::int64_t) {
    return troupe::microbatch_data{{at::randint(32, {2, 8}, at::kLong)},
                                   {at::randint(32, {2, 8}, at::kLong)},
                                   {},
                                   16};
  });
}

troupe::trainer make_trainer(troupe::loss_function loss = {}) {
  const auto model = troupe::gpt(
    {.width = 16, .layers = 2, .heads = 2, .length = 8, .vocabulary = 32});
  troupe::trainer_options options;
  options.schedule =
    troupe::make_schedule("1f1b", {.ranks = 2, .microbatches = 4});
  options.execution.limits.leave = 0.2;
  if (loss)
    options.numerics.loss = std::move(loss);
  return {model, options};
}

/// Prints at the end of the run.
troupe::monitor last_words() {
  troupe::monitor watcher;
  watcher.name = "last_words";
  watcher.see = [](const troupe::event&) {};
  watcher.finish = [] {
    std::puts("the monitor has finished");
    std::fflush(stdout);
  };
  return watcher;
}

bool wants(const char* mode) {
  const char* chosen = std::getenv("USES_TRAINER");
  return chosen != nullptr && std::string_view(chosen) == mode;
}

const std::unique_ptr<troupe::trainer> early =
  wants("early") ? std::make_unique<troupe::trainer>(make_trainer()) : nullptr;

void train() {
  auto run = make_trainer();
  run.attach(troupe::progress_monitor({.steps = 2}));
  for (const auto& step : run.train(random_tokens(), 2))
    std::printf("loss %.3f\n", step.losses.front().value);
}

int ends_at_exit() {
  static auto run = make_trainer();
  run.attach(last_words());
  for (const auto& step : run.train(random_tokens(), 2))
    std::printf("loss %.3f\n", step.losses.front().value);
  return 0;
}

[[noreturn]] void exits_in_a_step() {
  auto run = make_trainer();
  run.attach(last_words());
  std::atomic<int> steps = 0;
  std::thread([&steps] {
    while (steps < 2)
      std::this_thread::yield();
    std::exit(3);
  }).detach();
  for (;; ++steps)
    run.step(random_tokens());
}

[[noreturn]] void exits_in_a_loss() {
  auto run = make_trainer(
    [](const auto&, const auto&) -> std::vector<troupe::loss_term> {
      std::exit(4);
    });
  for (;;)
    run.step(random_tokens());
}

int trains_between_messages() {
  caf::init_global_meta_objects<caf::id_block::package_test>();
  caf::core::init_global_meta_objects();
  caf::actor_system_config config;
  caf::actor_system system(config);
  const auto doubles = system.spawn([]() -> caf::behavior {
    return {[](const question& request) { return 2 * request.number; }};
  });

  train();

  int answered = 0;
  caf::scoped_actor self(system);
  self->request(doubles, caf::infinite, question{21})
    .receive([&](int number) { answered = number; }, [](const caf::error&) {});
  caf::anon_send_exit(doubles, caf::exit_reason::user_shutdown);
  return answered == 42 ? 0 : 1;
}

int main() {
  if (wants("static"))
    return ends_at_exit();
  if (wants("exit"))
    exits_in_a_step();
  if (wants("inside"))
    exits_in_a_loss();
  return trains_between_messages();
}
