#include "troupe/cli/train/run_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string_view>

#include "troupe/actors/run_plans.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/base/status_line.hpp"
#include "troupe/cli/train/shared_cores.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

namespace {

/// "layers 0-2 | 3-5", or the number of stages if there are many.
std::string split_text(const stage_split& split) {
  constexpr std::size_t most_listed = 8;
  if (split.size() > most_listed)
    return fmt::format("{} stages", split.size());
  std::vector<std::string> parts;
  for (const auto& range : split)
    parts.push_back(range.last == range.first + 1
                      ? std::to_string(range.first)
                      : fmt::format("{}-{}", range.first, range.last - 1));
  return fmt::format("layers {}", fmt::join(parts, " | "));
}

std::string device_text(const train_options& o) {
  return o.devices.device == "cpu"
           ? fmt::format("cpu ({:.3g} cores)", usable_cores())
           : printable(o.devices.device);
}

plan plan_of(const train_setup& setup) {
  const auto& run = setup.trainer;
  const auto& layers = setup.model.layers;
  return *training_plan(
    run, graph_of(layers, run.split),
    tied_stages(layers, run.split, run.numerics.parameters));
}

}  // namespace

bool shows_on_terminal() {
  const auto* kind = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1
         && (kind == nullptr || std::string_view{kind} != "dumb");
}

std::string model_text(const train_options& options, const train_setup& setup) {
  const auto counts = parameter_counts(setup.model.layers);
  return fmt::format(
    "{}, {} parameters", printable(options.model.name),
    count_text(std::accumulate(counts.begin(), counts.end(), 0.0)));
}

namespace {

std::string run_name(const train_options& o) {
  if (!o.access.run_name.empty())
    return o.access.run_name;
  const std::filesystem::path folder{
    o.checkpoints.folder.empty() ? "." : o.checkpoints.folder};
  std::error_code trouble;
  const auto whole = std::filesystem::weakly_canonical(folder, trouble);
  return printable((trouble ? folder : whole).filename().string());
}

/// Arguments as the system keeps them, each with a zero behind it.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\0')
    text.pop_back();
  std::ranges::replace(text, '\0', ' ');
  return printable(text, text.size());
}

}  // namespace

run_description description_of(const train_options& options,
                               const train_setup& setup) {
  return {.name = run_name(options),
          .model = model_text(options, setup),
          .command = command_line()};
}

std::string start_summary(const train_options& options,
                          const train_setup& setup) {
  const auto& run = setup.trainer;
  const auto& batches = options.data.batches;
  const auto tokens = std::int64_t{run.schedule.microbatches}
                      * run.data_parallel * batches.rows * batches.length;
  auto text = fmt::format("model: {}, on {}\n", model_text(options, setup),
                          device_text(options));
  if (!options.plain)
    text += fmt::format(
      "pipeline: {}, {}, {}; {}, bubble {:.1f} % on paper\n",
      printable(run.schedule.name), counted(run.schedule.ranks(), "rank"),
      counted(run.data_parallel, "replica"), split_text(run.split),
      100 * simulate(plan_of(setup)).bubble);
  return text
         + fmt::format(
           "step: {} tokens, {} of {} x {}; {}\n", tokens,
           run.schedule.microbatches == 1
             ? "1 microbatch"
             : fmt::format("{} microbatches", run.schedule.microbatches),
           batches.rows, batches.length, counted(options.steps, "step"));
}

void run_tally::see(const step_event& step) {
  if (first_ == 0) {
    first_ = step.source.step;
    begin_ = step.begin;
  }
  last_ = step.source.step;
  end_ = step.end;
  tokens_ += step.tokens;
  losses_.clear();
  for (const auto& loss : step.losses)
    losses_ += fmt::format(", {} {:.4f}", loss.name, printable(loss.value));
}

std::string run_tally::text(const train_options& options) const {
  if (first_ == 0)
    return {};
  const auto seconds = static_cast<double>(end_ - begin_) * 1e-9;
  auto text = fmt::format(
    "trained steps {} to {} in {}{}, {} tokens, {} tok/s\n", first_, last_,
    duration_text(seconds), losses_, count_text(static_cast<double>(tokens_)),
    count_text(static_cast<double>(tokens_) / seconds));
  for (const auto& [flag, path] : written_files(options))
    text += fmt::format("written: {} ({})\n", printable(path), flag);
  return text;
}

void print_start_summary(const train_options& options,
                         const train_setup& setup) {
  if (shows_on_terminal())
    fmt::print("{}", start_summary(options, setup));
}

void print_end_summary(const train_options& options, const run_tally& tally) {
  if (!shows_on_terminal())
    return;
  clear_status_line();
  fmt::print("{}", tally.text(options));
}

}  // namespace troupe::cli
