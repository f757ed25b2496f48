#include "troupe/cli/train/dependent_flags.hpp"

#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

#include "troupe/base/fail.hpp"
#include "troupe/cli/train/train_healing.hpp"
#include "troupe/cli/train/train_setup.hpp"

namespace troupe::cli {

namespace {

using flag_table = std::vector<dependent_flags>;

void add_flags_of_model(flag_table& table, const train_options& o) {
  table.push_back({{"lora-alpha", "lora-dropout", "lora-modules"},
                   o.model.choices.lora.rank > 0,
                   "without --lora-rank",
                   true});
  table.push_back({{"save-dtype", "max-shard-size"},
                   !o.output.save_model.empty(),
                   "without --save-model",
                   true});
  table.push_back({{"predict-next-document"},
                   o.data.document_end >= 0,
                   "without --document-end"});
  table.push_back({{"eval-every"},
                   o.data.validation_fraction > 0,
                   "without a --validation-fraction above 0"});
  table.push_back(
    {{"temperature", "prompt"}, o.output.sample > 0, "without --sample"});
}

void add_flags_of_updates(flag_table& table, const train_options& o) {
  using enum learning_rate_schedule::shape;
  const auto& rate = o.numerics.learning_rate;
  const bool is_16_bit = o.numerics.dtypes.parameters != at::kFloat;
  table.push_back({{"final-lr", "min-lr", "decay-steps"},
                   rate.decay != constant,
                   "without --decay cosine, linear or wsd"});
  table.push_back({{"cooldown"},
                   rate.decay == wsd || rate.decay == wsd_sqrt,
                   "without --decay wsd or wsd-sqrt"});
  const auto& optimizer = o.optimisation.optimizer;
  const auto with_another = "with --optimizer " + optimizer.optimizer;
  table.push_back(
    {{"dampening"}, optimizer.momentum.value_or(0) > 0, "without --momentum"});
  table.push_back({{"nesterov"}, optimizer.optimizer == "sgd", with_another});
  table.push_back({{"muon-scale", "muon-except"},
                   optimizer.optimizer == "muon",
                   with_another});
  table.push_back({{"accumulate-dtype", "reduce-dtype"},
                   is_16_bit,
                   "without --dtype bf16 or fp16"});
  table.push_back({{"offload-optimizer"},
                   o.devices.device != "cpu",
                   "without --device cuda"});
}

void add_flags_of_pipeline(flag_table& table, const train_options& o) {
  const auto& parts = o.partition;
  table.push_back({{"costs", "sizes", "memory-limit"},
                   parts.schedule == search_name,
                   "without --schedule search"});
  table.push_back(
    {{"divide-gradients"}, parts.data_parallel > 1, "without --data-parallel"});
  const bool shards = parts.shard.mode != shard_mode::replicate;
  table.push_back({{"shard-multiple", "shard-group"},
                   shards,
                   "without --shard gradients, all or hybrid"});
  table.push_back({{"shard-whole"},
                   parts.shard.mode == shard_mode::all,
                   "without --shard all or hybrid"});
  table.push_back({{"shard"}, !(o.plain && shards), "with --plain"});
  table.push_back({{"order"},
                   !o.plain || o.execution.order == lane_order::strict,
                   "with --plain"});
  table.push_back({{"hosting"}, !o.plain, "with --plain"});
  table.push_back({{"slow-from"}, !o.order.slow.empty(), "without --slow"});
  table.push_back(
    {{"snapshot-every", "rebalance"}, is_healing(o.healing), "without --heal"});
}

void add_flags_of_output(flag_table& table, const train_options& o) {
  table.push_back({{"checkpoint-every", "keep", "keep-every"},
                   !o.checkpoints.folder.empty(),
                   "without --checkpoints DIR",
                   true});
  table.push_back(
    {{"resume"},
     o.checkpoints.resume != "auto" || !o.checkpoints.folder.empty(),
     "without --checkpoints DIR",
     true});
  table.push_back({{"profile-from", "profile-steps"},
                   !o.output.profile.empty(),
                   "without --profile FILE",
                   true});
  const bool has_page = !o.access.dashboard.empty();
  table.push_back({{"dashboard-token-file", "dashboard-save"},
                   has_page,
                   "without --dashboard HOST:PORT",
                   true});
  table.push_back({{"run-name"}, has_page, "without --dashboard HOST:PORT"});
}

bool is_set(const CLI::App& command, const std::string& name) {
  const auto* option = command.get_option_no_throw("--" + name);
  return option != nullptr && option->count() > 0;
}

template <class Visitor>
void visit_idle_flags(const CLI::App& command, const train_options& options,
                      bool refused, const Visitor& visit) {
  for (const auto& row : dependent_flags_of(options))
    for (const auto& name : row.names)
      if (row.are_refused == refused && !row.have_effect
          && is_set(command, name))
        visit(name, row.condition);
}

}  // namespace

flag_table dependent_flags_of(const train_options& options) {
  flag_table table;
  add_flags_of_model(table, options);
  add_flags_of_updates(table, options);
  add_flags_of_pipeline(table, options);
  add_flags_of_output(table, options);
  return table;
}

void require_effects(const CLI::App& command, const train_options& options) {
  visit_idle_flags(command, options, true,
                   [](const std::string& name, const std::string& condition) {
                     fail(error_code::invalid_argument,
                          "--{} has no effect {}; give it, or omit the flag",
                          name, condition);
                   });
}

void warn_of_idle_flags(const CLI::App& command, const train_options& options) {
  visit_idle_flags(command, options, false,
                   [](const std::string& name, const std::string& condition) {
                     spdlog::warn("--{} has no effect {}", name, condition);
                   });
  for (const auto& name : flags_of_other_models(options.model))
    if (is_set(command, name))
      spdlog::warn("--{} has no effect with --model {}", name,
                   options.model.name);
}

std::vector<std::string> moot_flags(const train_options& options) {
  auto flags = flags_of_other_models(options.model);
  if (options.model.is_folder())
    flags.emplace_back("vocabulary");
  for (const auto& row : dependent_flags_of(options))
    if (!row.have_effect)
      std::ranges::copy(row.names, std::back_inserter(flags));
  // The other of two flags that exclude each other.
  flags.emplace_back(options.epochs > 0 ? "steps" : "epochs");
  flags.emplace_back(options.optimisation.min_lr.empty() ? "min-lr"
                                                         : "final-lr");
  if (!sizes_file(options.partition).empty())
    std::ranges::copy(sizes_in_file(), std::back_inserter(flags));
  if (!options.partition.plan.empty())
    flags.emplace_back("schedule");
  return flags;
}

}  // namespace troupe::cli
