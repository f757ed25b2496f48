#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/least_credits.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/csv.hpp"

namespace troupe::cli {

namespace {

using json = nlohmann::ordered_json;

struct verify_options {
  std::string path;
  std::string transport = "buffered";
  bool shared_fifo = false;
  std::int32_t credits = 0;
  bool least_credits = false;
  std::string costs;
  std::string svg;
  std::string theme = "auto";
  bool json = false;
};

void warn(const verify_options& options) {
  if (options.credits > 0 && options.transport != "credited")
    spdlog::warn("--credits {} has no effect with --transport {}",
                 options.credits, options.transport);
  if (options.svg.empty() && options.theme != "auto")
    spdlog::warn("--theme {} has no effect without --svg", options.theme);
  if (!options.least_credits && !options.costs.empty())
    spdlog::warn("--costs {} has no effect without --least-credits",
                 options.costs);
}

using credit_counts = std::vector<std::int32_t>;
/// The least credits of each channel that keep the makespan, and those that
/// keep progress.
std::pair<credit_counts, credit_counts> needed_credits(
  const plan& plan, const verify_options& options) {
  const auto costs = divided(load_costs(options.costs), division_of(plan));
  return {least_credits(plan, credit_goal::makespan, costs),
          least_credits(plan, credit_goal::progress)};
}

std::string credits_table(const plan& plan, const verify_options& options) {
  auto text = fmt::format("\n{:<10} {:<10} {:>8} {:>7} {:>16} {:>14}\n", "edge",
                          "carries", "messages", "credits", "for the makespan",
                          "for progress");
  const auto [fast, alive] = needed_credits(plan, options);
  for (std::size_t c = 0; c < plan.channels.size(); ++c) {
    const auto& channel = plan.channels[c];
    text +=
      fmt::format("{:<10} {:<10} {:>8} {:>7} {:>16} {:>14}\n",
                  fmt::format("{}->{}", channel.from_rank, channel.to_rank),
                  channel.backward ? "gradients" : "outputs", channel.messages,
                  channel.bound, fast[c], alive[c]);
  }
  return text;
}

json credits_json(const plan& plan, const verify_options& options) {
  auto all = json::array();
  const auto [fast, alive] = needed_credits(plan, options);
  for (std::size_t c = 0; c < plan.channels.size(); ++c)
    all.push_back({{"from_rank", plan.channels[c].from_rank},
                   {"to_rank", plan.channels[c].to_rank},
                   {"backward", plan.channels[c].backward},
                   {"messages", plan.channels[c].messages},
                   {"bound", plan.channels[c].bound},
                   {"least_for_makespan", fast[c]},
                   {"least_for_progress", alive[c]}});
  return all;
}

void draw(const plan& plan, const verdict& found,
          const verify_options& options) {
  if (!options.svg.empty())
    write_output(options.svg,
                 draw_deadlock(plan, found, parse_theme(options.theme)));
}

/// Prints the report, also of a deadlock.
void print_json(const plan& plan, const verdict& found,
                const verify_options& options) {
  if (!options.json)
    return;
  json report{{"file", printable(options.path)},
              {"transport", options.transport},
              {"shared_fifo", options.shared_fifo},
              {"progress", found.progress},
              {"cycle", json::array()},
              {"ranks", plan.ranks()},
              {"stages", plan.stages()},
              {"microbatches", plan.microbatches},
              {"ops", plan.ops.size()},
              {"messages", plan.messages.size()}};
  for (const auto& wait : found.cycle)
    report["cycle"].push_back({{"rank", wait.rank},
                               {"op", to_text(plan, wait.op)},
                               {"for_rank", plan.rank_of(wait.for_op)},
                               {"for_op", to_text(plan, wait.for_op)},
                               {"text", wait.text}});
  if (options.least_credits && found.progress)
    report["channels"] = credits_json(plan, options);
  write_output("", report.dump(2) + '\n');
}

/// The file's plan. Draws and reports lanes that wait for each other on any
/// transport, as they can't be compiled.
plan find_plan(const verify_options& options) {
  try {
    return load_plan(options.path);
  } catch (const error& refusal) {
    if (refusal.code() == error_code::deadlock) {
      const auto lanes = lane_plan(load_schedule(options.path));
      const auto found = verify(lanes);
      draw(lanes, found, options);
      print_json(lanes, found, options);
    }
    throw;
  }
}

void run(const verify_options& options) {
  warn(options);
  if (options.path.empty())
    throw error(
      error_code::invalid_argument,
      "verify needs a file: a plan, as `troupe plan --schedule NAME -o "
      "FILE.plan` writes it, or a schedule's CSV");
  auto plan = find_plan(options);
  for (auto& channel : plan.channels)
    if (options.credits > 0)
      channel.credits = std::min(channel.bound, options.credits);
  const auto found = verify(plan, {.kind = parse_transport(options.transport),
                                   .shared_fifo = options.shared_fifo});
  const auto setting =
    fmt::format("{}, {}", options.transport,
                options.shared_fifo ? "one FIFO for each pair of ranks"
                                    : "one FIFO for each edge");
  print_json(plan, found, options);
  if (!found.progress) {
    draw(plan, found, options);
    fail(error_code::deadlock, "{} ({}): {}", options.path, setting,
         found.text());
  }
  if (!options.svg.empty())
    spdlog::warn("--svg {}: there is no deadlock to draw", options.svg);
  if (!options.json)
    write_output(
      "", fmt::format("{} ({}): {}; {}\n", options.path, setting, found.text(),
                      sizes_of(plan))
            + (options.least_credits ? credits_table(plan, options) : ""));
}

}  // namespace

void add_verify_command(CLI::App& app) {
  auto* command = app.add_subcommand(
    "verify", "prove that a schedule makes progress, or show the cycle");
  const auto options = std::make_shared<verify_options>();
  add_plan_file(*command, options->path,
                "a plan, or CSV as PyTorch writes it, compute only or lowered");
  add_value(*command, "--transport MODEL", options->transport,
            "buffered: sends never wait; credited: sends wait for a credit of "
            "their channel; rendezvous: sends wait for the receiver",
            one_of({"buffered", "credited", "rendezvous"}))
    ->capture_default_str();
  command->add_flag(
    "--shared-fifo", options->shared_fifo,
    "transfers between two ranks share one FIFO, in both directions");
  add_value(*command, "--credits N", options->credits,
            "maximum credits per channel; default: as many as the plan needs",
            whole_number(1, 1 << 20));
  command->add_flag("--least-credits", options->least_credits,
                    "print, for each channel, the fewest credits that preserve "
                    "the makespan, and the fewest that preserve progress");
  add_value(*command, "--costs ENTRIES|FILE", options->costs,
            "op times for --least-credits, as simulate takes them");
  add_value(*command, "--svg FILE", options->svg,
            "file: draws the cycle of waits, if there is one");
  add_value(*command, "--theme THEME", options->theme,
            "of --svg: light, dark, or auto: as the reader's system prefers",
            one_of({"auto", "light", "dark"}))
    ->capture_default_str();
  command->add_flag(
    "--json", options->json,
    "file, transport, shared_fifo, progress, cycle, sizes; also on a deadlock");
  command->footer(
    "Exit code 1 with the cycle of waits where there is no progress.\n\n"
    "Example:\n  troupe plan --schedule 1f1b --ranks 4 --microbatches 8 \\\n"
    "    --lower --format csv -o 1f1b.csv\n"
    "  troupe verify 1f1b.csv --transport rendezvous");
  command->callback([options] { run(*options); });
}

}  // namespace troupe::cli
