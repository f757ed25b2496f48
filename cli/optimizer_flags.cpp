#include "troupe/cli/optimizer_flags.hpp"

#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include <map>
#include <type_traits>
#include <utility>

#include "troupe/base/fields.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

TROUPE_FIELDS(sgd, learning_rate, weight_decay, momentum, dampening)
TROUPE_FIELDS(adamw, learning_rate, weight_decay, beta1, beta2, epsilon)
TROUPE_FIELDS(lion, learning_rate, weight_decay, beta1, beta2)
TROUPE_FIELDS(adafactor, learning_rate, weight_decay)
TROUPE_FIELDS(muon, learning_rate, weight_decay, momentum, beta1, beta2,
              epsilon)

}  // namespace troupe

namespace troupe::cli {

namespace {

template <class Kind>
optimizer_options options_of(const optimizer_flags& o) {
  Kind options;
  if constexpr (std::is_same_v<Kind, sgd>)
    options.nesterov = o.nesterov;
  if constexpr (std::is_same_v<Kind, muon>)
    options = o.of_muon;
  std::map<std::string, std::pair<const char*, std::optional<double>>> unused{
    {"learning_rate", {"--lr", o.lr}},
    {"weight_decay", {"--weight-decay", o.weight_decay}},
    {"momentum", {"--momentum", o.momentum}},
    {"dampening", {"--dampening", o.dampening}},
    {"beta1", {"--beta1", o.beta1}},
    {"beta2", {"--beta2", o.beta2}},
    {"epsilon", {"--eps", o.epsilon}}};
  const auto take = [&](const char* name, double& option) {
    option = unused.extract(name).mapped().second.value_or(option);
  };
  fields(take, options);
  for (const auto& [name, flag] : unused)
    if (flag.second.value_or(0) > 0)
      spdlog::warn("{} {} has no effect with --optimizer {}", flag.first,
                   *flag.second, o.optimizer);
  return options;
}

using options_maker = optimizer_options (*)(const optimizer_flags&);

const std::map<std::string, options_maker>& makers() {
  static const std::map<std::string, options_maker> all = {
    {"sgd", options_of<sgd>},
    {"adamw", options_of<adamw>},
    {"lion", options_of<lion>},
    {"adafactor", options_of<adafactor>},
    {"muon", options_of<muon>}};
  return all;
}

/// Options that several optimizers share.
void add_shared_flags(CLI::App& app, optimizer_flags& o) {
  const auto usual = description("the optimizer's");
  add_value(
    app, "--lr", o.lr,
    "learning rate; adamw 3e-4, sgd 0.05, lion 1e-4, adafactor 0.01, muon 1e-3",
    number(0))
    ->default_str(usual);
  add_value(app, "--weight-decay", o.weight_decay,
            "adamw 0.01, muon 0.1, others 0", number(0))
    ->default_str(usual);
  add_choice(
    app, "--decay-of", o.decays_all, {{"all", true}, {"matrices", false}},
    "parameters whose weights decay: all, as in PyTorch's AdamW, "
    "torchtune and torchtitan, or matrices, those of two dimensions or "
    "more, as in Transformers' Trainer, Megatron-LM and nanoGPT");
  add_value(app, "--momentum", o.momentum, "sgd 0, muon 0.95", number(0, 1))
    ->default_str(usual);
  add_value(app, "--beta1", o.beta1, "adamw, lion, muon's AdamW: 0.9",
            number(0, 1))
    ->default_str(usual);
  add_value(app, "--beta2", o.beta2, "adamw, muon's AdamW: 0.999, lion 0.99",
            number(0, 1))
    ->default_str(usual);
  add_value(app, "--eps", o.epsilon,
            "added to the root of the second moment: adamw, muon's AdamW 1e-8",
            number(0))
    ->default_str(usual);
}

}  // namespace

void add_optimizer_flags(CLI::App& app, optimizer_flags& o) {
  add_value(
    app, "--optimizer", o.optimizer,
    "adamw, sgd, lion, adafactor, or muon, which updates two-dimensional "
    "parameters except those of --muon-except; AdamW updates the others",
    one_of({"adamw", "sgd", "lion", "adafactor", "muon"}));
  add_shared_flags(app, o);
  add_value(app, "--dampening", o.dampening, "of sgd's momentum: 0",
            number(0, 1))
    ->default_str(description("the optimizer's"));
  app.add_flag("--nesterov", o.nesterov, "Nesterov's momentum, of sgd");
  add_choice(app, "--muon-scale HOW", o.of_muon.scale,
             {{"match_rms_adamw", muon_scale::match_rms_adamw},
              {"original", muon_scale::original}},
             "how muon scales the learning rate with a matrix's shape A x B: "
             "match_rms_adamw: 0.2 sqrt(max(A, B)), so that one rate suits "
             "AdamW too; original: sqrt(max(1, A / B))");
  add_value(app, "--muon-except GLOBS", o.of_muon.except,
            "comma-separated globs of parameter names that AdamW updates as "
            "well: embeddings and heads");
  add_value(app, "--parameters GROUP", o.parameters,
            "settings of parameters by name, as GLOBS:SETTING,...: lr*FACTOR, "
            "weight-decay=NUMBER, or frozen (no gradient, state or update): "
            "'tok.*,pos.*:lr*0.5,weight-decay=0'. Repeatable; only the last "
            "match applies")
    ->allow_extra_args(false);
}

optimizer_options optimizer_for(const optimizer_flags& flags) {
  return makers().at(flags.optimizer)(flags);
}

parameter_groups groups_for(const optimizer_flags& flags, const model& layers) {
  parameter_groups groups;
  for (const auto& text : flags.parameters)
    groups.push_back(parse_parameter_group(text));
  if (flags.decays_all)
    return groups;
  std::vector<std::string> vectors;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, value] :
         parameters_of(layers[i].name, *make_layer_shapes(layers, i)))
      if (value.dim() < 2)
        vectors.push_back(name);
  return without_decay(std::move(groups), vectors);
}

choices<std::optional<at::ScalarType>> dtype_choices(const char* none) {
  choices<std::optional<at::ScalarType>> words{
    {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  if (*none != '\0')
    words.insert(words.begin(), {none, std::nullopt});
  return words;
}

}  // namespace troupe::cli
