#include "troupe/training/run_settings.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <type_traits>
#include <variant>

#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"

namespace troupe {

namespace {

/// None: the texts are an older checkpoint's, or were edited.
std::optional<learning_rates> read_rates(const setting_texts& texts) {
  learning_rates read;
  bool is_whole = true;
  const auto number = [&](const char* name, auto& into) {
    const auto text = texts.find(name);
    const auto value =
      text == texts.end()
        ? std::nullopt
        : parse_number<std::decay_t<decltype(into)>>(text->second);
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
                   std::int64_t update, const std::string& prefix) {
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
      ? fmt::format(": the decay ends at step {} and not at {}; {} {} keeps "
                    "the schedule",
                    now.schedule.total_steps, then.schedule.total_steps,
                    prefix.empty() ? "total_steps" : prefix + "decay-steps",
                    then.schedule.total_steps)
      : "; give the flags of that run to keep it");
}

}  // namespace

std::string optimizer_name(const optimizer_options& options) {
  constexpr std::array names{"sgd", "adamw", "lion", "adafactor", "muon"};
  static_assert(
    std::size(names)
      == std::variant_size_v<
        optimizer_options> && std::is_same_v<std::variant_alternative_t<1, optimizer_options>, adamw>);
  return names[options.index()];
}

const std::map<std::string, learning_rate_schedule::shape>& decays() {
  using enum learning_rate_schedule::shape;
  static const std::map<std::string, learning_rate_schedule::shape> all{
    {"constant", constant},
    {"cosine", cosine},
    {"linear", linear},
    {"wsd", wsd},
    {"wsd-sqrt", wsd_sqrt}};
  return all;
}

learning_rates rates_of(const numerics& options) {
  return {options.learning_rate, base_learning_rate(options.optimizer)};
}

setting_texts texts_of(const learning_rates& rates) {
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

void tell_of_other_settings(const manifest& checkpoint,
                            const setting_texts& settings,
                            const learning_rates& rates,
                            const std::string& prefix) {
  const auto text_in = [](const setting_texts& of, const std::string& name) {
    const auto text = of.find(name);
    return text == of.end() ? "not given" : printable(text->second);
  };
  auto names = checkpoint.flags;
  if (!names.empty())
    names.insert(settings.begin(), settings.end());
  for (const auto& [name, ignored] : names)
    if (const auto now = text_in(settings, name),
        then = text_in(checkpoint.flags, name);
        now != then)
      spdlog::info("{}{} is {}; until the checkpoint it was {}", prefix,
                   printable(name), now, then);
  const auto& progress = checkpoint.progress;
  if (const auto then = read_rates(checkpoint.learning_rate))
    tell_of_rates(*then, rates, progress.step - progress.skipped + 1, prefix);
}

}  // namespace troupe
