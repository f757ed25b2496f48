#include "troupe/cli/train/folder_flags.hpp"

#include <CLI/CLI.hpp>

#include "troupe/cli/plan/checks.hpp"

namespace troupe::cli {

void add_folder_flags(CLI::App& app, train_options& options) {
  auto& model = options.model;
  auto& output = options.output;
  app.option_defaults()->group("Model: a folder of transformers");
  app.add_flag("--from-scratch", model.from_scratch,
               "a --model that is a folder begins with fresh parameters: its "
               "config.json is all that is read");
  app
    .add_option("--loss-positions", model.choices.loss_positions,
                "positions whose logits are made at once, for the loss of a "
                "--model that is a folder; 0: of 16 MiB of logits")
    ->check(whole_number(0));
  app
    .add_option("--lora-rank", model.choices.lora.rank,
                "train low-rank adapters of this rank alone, for a --model "
                "that is a folder; 0: none")
    ->check(whole_number(0, 1 << 16));
  app
    .add_option("--lora-alpha", model.choices.lora.alpha,
                "adapters are multiplied by this over their rank")
    ->check(number_above(0));
  app
    .add_option("--lora-modules", model.choices.lora.modules,
                "modules that get adapters: globs of names or their last "
                "parts, joined by commas")
    ->type_name("GLOBS");
  app
    .add_option("--save-model", output.save_model,
                "write the model after the last step as a folder of Hugging "
                "Face's transformers; for a --model that was one")
    ->type_name("DIR");
  app
    .add_option("--save-dtype", output.save_dtype,
                "of --save-model: same as in --model, fp32, bf16 or fp16")
    ->check(CLI::IsMember({"same", "fp32", "bf16", "fp16"}));
  app
    .add_option("--max-shard-size", output.shard_bytes,
                "most bytes of a file of --save-model, such as 5GB")
    ->transform(CLI::AsSizeValue(true))
    ->check(whole_number(1));
  app
    .add_option("--save-adapter", output.save_adapter,
                "write the adapters of --lora-rank after the last step as a "
                "folder of Hugging Face's PEFT")
    ->type_name("DIR");
  app
    .add_option("--document-end", options.data.document_end,
                "id of the token that ends a document: tokens attend to those "
                "of their own document only; -1: to all of the row")
    ->check(whole_number(-1));
  app.option_defaults()->group("Model");
}

}  // namespace troupe::cli
