#include "troupe/cli/train/resumed_settings.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>

#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/optimizer_flags.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"

namespace troupe::cli {

namespace {

/// None: the texts are an older checkpoint's, or were edited.
std::optional<learning_rates> read_rates(const flag_texts& texts) {
  learning_rates read;
  bool is_whole = true;
  const auto number = [&](const char* name, auto& into) {
    const auto found = texts.find(name);
    const auto value =
      found == texts.end()
        ? std::nullopt
        : parse_number<std::decay_t<decltype(into)>>(found->second);
    is_whole = is_whole && value.has_value();
    into = value.value_or(0);
  };
  auto& schedule = read.schedule;
  number("base", read.base);
  number("warmup_steps", schedule.warmup_steps);
  number("total_steps", schedule.total_steps);
  number("final_fraction", schedule.final_fraction);
  if (texts.contains("cooldown_steps"))  // not in older checkpoints
    number("cooldown_steps", schedule.cooldown_steps);
  const auto decay = texts.find("decay");
  if (!is_whole || decay == texts.end() || !decays().contains(decay->second))
    return {};
  schedule.decay = decays().at(decay->second);
  return read;
}

void tell_of_rates(const learning_rates& then, const learning_rates& now,
                   std::int64_t update) {
  const auto before = then.at(update), after = now.at(update);
  constexpr double small = 0.01;
  if (std::abs(before - after) <= small * std::max(before, after))
    return;
  const bool stretches =
    now.schedule.decay == then.schedule.decay && now.base == then.base
    && now.schedule.warmup_steps == then.schedule.warmup_steps
    && now.schedule.final_fraction == then.schedule.final_fraction
    && now.schedule.total_steps != then.schedule.total_steps;
  spdlog::warn(
    "the learning rate of the next update is {:.4g}; by the schedule of the "
    "checkpoint it would be {:.4g}{}",
    after, before,
    stretches
      ? fmt::format(": the decay ends at step {} and not at {}; --decay-steps "
                    "{} keeps the schedule",
                    now.schedule.total_steps, then.schedule.total_steps,
                    then.schedule.total_steps)
      : "; give the flags of that run to keep it");
}

}  // namespace

flag_texts flags_of_updates(const CLI::App& command) {
  constexpr std::array<std::string_view, 7> others{
    "microbatches", "microbatch-size", "data-parallel", "schedule",
    "threads",      "dropout",         "lora-dropout"};
  flag_texts flags;
  for (auto& [name, value] : flag_values(command)) {
    const auto* option = command.get_option_no_throw("--" + name);
    const bool is_kept = option != nullptr && name != "steps"
                         && name != "epochs"
                         && (option->get_group() == "Optimisation"
                             || std::ranges::count(others, name) > 0);
    if (is_kept)
      flags.emplace(name, std::move(value));
  }
  return flags;
}

learning_rates rates_of(const numerics& options) {
  return {options.learning_rate, base_learning_rate(options.optimizer)};
}

flag_texts texts_of(const learning_rates& rates) {
  const auto& schedule = rates.schedule;
  const auto name = std::ranges::find(
    decays(), schedule.decay, [](const auto& item) { return item.second; });
  return {{"base", fmt::format("{}", rates.base)},
          {"decay", name->first},
          {"warmup_steps", std::to_string(schedule.warmup_steps)},
          {"total_steps", std::to_string(schedule.total_steps)},
          {"cooldown_steps", std::to_string(schedule.cooldown_steps)},
          {"final_fraction", fmt::format("{}", schedule.final_fraction)}};
}

void tell_of_other_settings(const manifest& checkpoint, const flag_texts& flags,
                            const learning_rates& rates) {
  const auto text_in = [](const flag_texts& of, const std::string& name) {
    const auto found = of.find(name);
    return found == of.end() ? "not given" : printable(found->second);
  };
  auto names = checkpoint.flags;
  if (!names.empty())
    names.insert(flags.begin(), flags.end());
  for (const auto& [name, ignored] : names)
    if (const auto now = text_in(flags, name),
        then = text_in(checkpoint.flags, name);
        now != then)
      spdlog::info("--{} is {}; until the checkpoint it was {}",
                   printable(name), now, then);
  const auto& progress = checkpoint.progress;
  if (const auto then = read_rates(checkpoint.learning_rate))
    tell_of_rates(*then, rates, progress.step - progress.skipped + 1);
}

}  // namespace troupe::cli
