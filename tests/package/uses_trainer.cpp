// A CAF program with messages and an actor system of its own, which trains.
#include <ATen/ops/randint.h>

#include <caf/all.hpp>

#include <cstdio>

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
bool inspect(Inspector& f, question& asked) {
  return f.object(asked).fields(f.field("number", asked.number));
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

void train() {
  const auto model = troupe::gpt(
    {.width = 16, .layers = 2, .heads = 2, .length = 8, .vocabulary = 32});
  troupe::trainer_options options;
  options.schedule =
    troupe::make_schedule("1f1b", {.ranks = 2, .microbatches = 4});
  troupe::trainer run{model, options};
  run.attach(troupe::progress_monitor({.steps = 2}));
  for (const auto& step : run.train(random_tokens(), 2))
    std::printf("loss %.3f\n", step.losses.front().value);
}

int main() {
  caf::init_global_meta_objects<caf::id_block::package_test>();
  caf::core::init_global_meta_objects();
  caf::actor_system_config config;
  caf::actor_system system(config);
  const auto doubles = system.spawn([]() -> caf::behavior {
    return {[](const question& asked) { return 2 * asked.number; }};
  });

  train();

  int answered = 0;
  caf::scoped_actor self(system);
  self->request(doubles, caf::infinite, question{21})
    .receive([&](int number) { answered = number; }, [](const caf::error&) {});
  caf::anon_send_exit(doubles, caf::exit_reason::user_shutdown);
  return answered == 42 ? 0 : 1;
}
