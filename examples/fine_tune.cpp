// Fine-tunes a model of Hugging Face's by LoRA, in two pipeline stages:
//   fine_tune MODEL_FOLDER TOKENS RUN_FOLDER [STEPS]
// Checkpoints are saved in the background; started again, the run goes on from
// the last one. Ctrl-C ends it after the step that runs, with that step saved.
// `troupe top` attaches to it, and a browser shows it.

#include <fmt/format.h>

#include <cstdlib>

#include "troupe/monitor.hpp"
#include "troupe/train.hpp"

using namespace troupe;

int main(int argc, char** argv) try {
  if (argc < 4) {
    fmt::print("usage: fine_tune MODEL_FOLDER TOKENS RUN_FOLDER [STEPS]\n");
    return 2;
  }
  const std::string run_folder = argv[3];
  const auto steps = argc > 4 ? std::atol(argv[4]) : 100;

  const model_folder pretrained(argv[1]);
  const lora_options lora{.rank = 4, .modules = "q_proj,v_proj"};
  const auto adapted = pretrained.build(at::kFloat, 1, {.lora = lora});
  const text_batch_options rows{
    .rows = 2, .length = 16, .vocabulary = pretrained.vocabulary()};
  const auto text = text_batches(open_tokens(argv[2]), rows);

  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 4});
  options.numerics.loss = adapted.loss;
  options.numerics.optimizer = adamw{.learning_rate = 1e-3};
  trainer run(adapted.layers, options);

  const stop_on_signals stopping(run);
  run_checkpoints saved(
    run, {.folder = run_folder + "/checkpoints",
          .every = 5,
          .resume = "auto",
          .about = {.model = texts_of_folder(pretrained, lora, rows)}});
  run.attach(progress_monitor({.steps = steps}));
  const endpoint_server endpoint(run);
  const dashboard page(run);
  fmt::print("troupe top {}\n{}\n", endpoint.where(), page.url());

  for (const auto& step : run.train(text, saved.steps_left(steps)))
    if (saved.after_step(); step.source.step % 50 == 0)
      fmt::print("{}\n", saved.summary());
  saved.finish();
  run.finish_monitors();
  if (const auto end = run.ended())
    fmt::print("ended by {}; {}\n", end->reason, saved.summary());
  else
    pretrained.save_adapter(fmt::format("{}/adapter-{}", run_folder, steps),
                            run.gather_parameters(), lora);
  return stopping.exit_code();
} catch (const error& reason) {
  fmt::print(stderr, "{}\n", reason.what());
  return exit_code(reason.code());
}
