// Trains a small GPT, split into two pipeline stages, on a text file:
//   train_gpt book.txt [steps]

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "troupe/train.hpp"

using namespace troupe;

int main(int argc, char** argv) try {
  const bool help = argc > 1 && std::string_view(argv[1]) == "--help";
  if (argc < 2 || help) {
    fmt::print("usage: train_gpt TEXT [STEPS]\n");
    return help ? 0 : 2;
  }
  const auto steps = argc > 2 ? std::atol(argv[2]) : 20;

  const gpt_options sizes{.width = 64, .layers = 4, .heads = 4, .length = 64};
  const auto text =
    text_batches(open_tokens(argv[1]), {.rows = 4, .length = sizes.length});

  trainer_options options;
  options.schedule = make_schedule(
    "1f1b", {.ranks = 2, .stages_per_rank = 1, .microbatches = 8});
  options.numerics.optimizer = adamw{.learning_rate = 1e-3};
  options.numerics.clip = 1.0;

  trainer run(gpt(sizes), options);
  for (const auto& step : run.train(text, steps))
    fmt::print("step {} loss {:.4f} grad_norm {:.3f}\n", step.source.step,
               step.losses[0].value, step.gradient_norm);
} catch (const error& reason) {
  fmt::print(stderr, "{}\n", reason.what());
  return exit_code(reason.code());
}
