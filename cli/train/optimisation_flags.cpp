#include "troupe/cli/train/optimisation_flags.hpp"

#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/training/run_settings.hpp"

namespace troupe::cli {

namespace {

void add_loss_scale_flags(CLI::App& app, loss_scale_options& o) {
  add_value(app, "--loss-scale", o.initial,
            "what the loss is multiplied by; constant without "
            "--dynamic-loss-scale",
            number_above(0))
    ->default_str(description("65536 if dynamic, else 1"));
  app.add_flag("--dynamic-loss-scale", o.dynamic,
               "halve the scale and skip the update on an overflow, double it "
               "after 2000 good steps; the default with fp16, unless "
               "--loss-scale is given");
  add_value(app, "--min-loss-scale", o.smallest, "of a dynamic loss scale",
            number_above(0));
  add_value(app, "--max-skipped-updates", o.most_skipped,
            "updates skipped in a row at the smallest loss scale that end the "
            "run with an error; 0: none do",
            whole_number(0));
}

void add_learning_rate_flags(CLI::App& app, train_options& o) {
  add_value(app, "--warmup", o.numerics.learning_rate.warmup_steps,
            "steps of linear warm-up", whole_number(0));
  add_choice(app, "--decay", o.numerics.learning_rate.decay,
             {decays().begin(), decays().end()}, "of the learning rate");
  add_value(app, "--decay-steps", o.numerics.learning_rate.total_steps,
            "the step at which the decay ends, warm-up included; 0: the last "
            "one, so that a longer --steps stretches the decay",
            whole_number(0));
  add_value(app, "--cooldown", o.numerics.learning_rate.cooldown_steps,
            "last steps of the decay, in which --decay wsd and wsd-sqrt fall; "
            "0: a tenth of all",
            whole_number(0));
  auto* final_rate =
    add_value(app, "--final-lr", o.numerics.learning_rate.final_fraction,
              "learning rate at the end of the decay, as a fraction of --lr",
              number(0, 1));
  add_value(app, "--min-lr RATE", o.optimisation.min_lr,
            "learning rate at the end of the decay, as a rate (1e-5) or as a "
            "part of --lr (10%)")
    ->default_str(description("--final-lr"))
    ->excludes(final_rate);
}

void add_precision_flags(CLI::App& app, train_options& o) {
  add_choice(
    app, "--autocast", o.numerics.autocast,
    {{"none", std::nullopt}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}},
    "autocast to bf16 or fp16 where it is faster; parameters stay fp32");
  add_choice(app, "--dtype", o.numerics.dtypes.parameters, dtype_choices(),
             "dtype of parameters, activations and gradients; with bf16 and "
             "fp16 the optimizer updates fp32 master weights");
  app.add_flag("--offload-optimizer", o.numerics.offload_optimizer,
               "keep optimizer state in host memory and update there, to save "
               "device memory");
  add_choice(app, "--buffer-dtype", o.numerics.dtypes.buffers,
             dtype_choices("same"),
             "dtype of the model's buffers; same: that of the parameters");
  add_choice(app, "--accumulate-dtype", o.numerics.accumulate_in_fp32,
             {{"fp32", true}, {"same", false}},
             "add 16-bit gradients of microbatches in fp32, or in their own "
             "dtype (same), which takes 2 bytes less a parameter");
}

}  // namespace

void add_optimisation_flags(CLI::App& app, train_options& o) {
  app.option_defaults()->group(
    "Optimisation: steps, optimizer, learning rate, precision, seed");
  auto* steps =
    add_value(app, "--steps", o.steps, "optimizer updates", whole_number(0));
  add_value(app, "--epochs", o.epochs,
            "passes over the training text, in place of --steps; 0: as many as "
            "--steps take",
            whole_number(0, 1 << 20))
    ->excludes(steps);
  add_optimizer_flags(app, o.optimisation.optimizer);
  add_learning_rate_flags(app, o);
  add_choice(app, "--loss-weighting", o.numerics.weighting,
             {{"tokens", loss_weighting::tokens},
              {"microbatches", loss_weighting::microbatches}},
             "what an update's loss is a mean of: all its tokens that are to "
             "be predicted, or its microbatches, whose losses are means "
             "themselves");
  add_value(app, "--clip", o.numerics.clip,
            "largest gradient norm; 0: no clipping", number(0));
  add_choice(app, "--clip-norm-type P", o.numerics.gradient_norm,
             {{"1", norm_type::one},
              {"2", norm_type::two},
              {"3", norm_type::three},
              {"inf", norm_type::infinity}},
             "p of the gradient p-norm that is clipped and reported: 1, 2, 3, "
             "or inf (the largest value)");
  add_precision_flags(app, o);
  add_loss_scale_flags(app, o.numerics.loss_scale);
  add_value(app, "--seed", o.data.batches.seed,
            "seed of weights, data order, dropout and sampling",
            whole_number(0));
  app.add_flag("--halt-on-nan", o.numerics.halt_on_nan,
               "stop with an error when the loss is not finite");
}

namespace {

gradient_division division_of(const partition_options& o) {
  if (o.division == "mean")
    return {};
  if (o.division == "balanced")
    return balanced_division(o.data_parallel);
  const auto comma = o.division.find(',');
  const auto before = parse_number<double>(o.division.substr(0, comma));
  const auto after = comma == std::string::npos
                       ? std::nullopt
                       : parse_number<double>(o.division.substr(comma + 1));
  if (!before || !after || *after == 0)
    fail(error_code::invalid_argument,
         "--divide-gradients {}: use mean, balanced or two factors, such as "
         "2,4",
         printable(o.division));
  return {.before = *before, .after = *after};
}

/// fp16 has a dynamic loss scale unless the flags set a constant one, as with
/// --fp16 of Megatron-LM and Transformers, if all gradients of a step are
/// updated together.
void set_loss_scale(numerics& of, const schedule& schedule) {
  const bool fp16 =
    of.autocast == at::kHalf || of.dtypes.parameters == at::kHalf;
  auto& scale = of.loss_scale;
  if (!fp16 || scale.dynamic || scale.initial)
    return;
  scale.dynamic = schedule.update.every == 0;
  if (!scale.dynamic)
    spdlog::warn(
      "schedule {} updates within a step, which a dynamic loss scale can't "
      "follow, and small gradients underflow to 0 in fp16; use a --loss-scale",
      schedule.name);
}

/// --min-lr, a rate or a percentage, as a fraction of the base rate.
double final_fraction_of(const std::string& min_lr, double base) {
  const bool is_part = min_lr.ends_with('%');
  const auto value = parse_number<double>(
    is_part ? min_lr.substr(0, min_lr.size() - 1) : min_lr);
  const auto whole = is_part ? 100 : base;
  if (!value || !(*value >= 0 && *value <= whole))
    fail(error_code::invalid_argument,
         "--min-lr {}: give a rate from 0 to --lr ({:.4g}), or a part of it, "
         "such as 10%",
         printable(min_lr), base);
  return whole > 0 ? *value / whole : 0;
}

learning_rate_schedule learning_rate_for(const train_options& o, double base) {
  auto schedule = o.numerics.learning_rate;
  if (schedule.total_steps == 0)
    schedule.total_steps = o.steps;
  if (schedule.cooldown_steps == 0)
    schedule.cooldown_steps = (schedule.total_steps + 9) / 10;
  if (!o.optimisation.min_lr.empty())
    schedule.final_fraction = final_fraction_of(o.optimisation.min_lr, base);
  return schedule;
}

}  // namespace

numerics numerics_for(const train_options& o, const built_model& model,
                      const schedule& schedule) {
  auto result = o.numerics;
  result.loss = model.loss;
  result.seed = o.data.batches.seed;
  result.optimizer = optimizer_for(o.optimisation.optimizer);
  result.parameters = groups_for(o.optimisation.optimizer, model.layers);
  result.learning_rate =
    learning_rate_for(o, base_learning_rate(result.optimizer));
  auto division = division_of(o.partition);
  division.in_fp32 = result.division.in_fp32;
  result.division = division;
  set_loss_scale(result, schedule);
  return result;
}

}  // namespace troupe::cli
