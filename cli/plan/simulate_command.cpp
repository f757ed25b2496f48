#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

namespace troupe::cli {

namespace {

struct simulate_options {
  schedule_options source;
  std::string path;
  offload_flags offload;
  std::string slow;
  disturbance disturbing;
  CLI::Option* seeded = nullptr;  // --seed
  lane_order order = lane_order::strict;
  std::int32_t steps = 0;  // 0: unset
  bool barrier = false;
  bool atomic_pairs = false;
  bool json = false;
};

plan chosen_plan(const simulate_options& options) {
  if (options.path.empty()) {
    const auto lanes = options.source.find();
    return compile(lanes, {.data_parallel = options.source.data_parallel,
                           .tied = options.source.tied(lanes)});
  }
  if (!options.source.schedule.empty())
    fail(error_code::invalid_argument, "give a file or --schedule, not both");
  options.source.warn_beside(options.path);
  return load_plan(options.path);
}

std::vector<std::string> path_texts(const plan& plan, const simulation& times) {
  std::vector<std::string> texts;
  for (const auto op : times.critical_path)
    texts.push_back(to_text(plan, op));
  return texts;
}

/// What `simulate` prints.
struct simulated_plan {
  simulation times;
  std::vector<double> bytes{};       // peak by rank; empty without sizes
  std::vector<double> host_bytes{};  // the same, offloaded; empty without any
  double joint_bytes = 0;            // peak of all ranks together
  std::vector<double> step_ends{};   // empty without --steps
};

/// The mean time from one step's end to the next; the duration if there is one
/// step.
double period_of(const std::vector<double>& step_ends) {
  return step_ends.size() == 1 ? step_ends[0]
                               : (step_ends.back() - step_ends.front())
                                   / static_cast<double>(step_ends.size() - 1);
}

std::string to_json(const plan& plan, const simulated_plan& found) {
  const auto& times = found.times;
  nlohmann::ordered_json json{{"makespan", times.makespan},
                              {"period", times.period},
                              {"idle", times.idle},
                              {"in_flight", times.in_flight},
                              {"critical_path", path_texts(plan, times)},
                              {"messages", plan.messages.size()}};
  if (!found.bytes.empty())
    json.update(
      {{"peak_bytes", found.bytes}, {"joint_peak_bytes", found.joint_bytes}});
  if (!found.host_bytes.empty())
    json["host_peak_bytes"] = found.host_bytes;
  if (!found.step_ends.empty()) {
    json["step_ends"] = found.step_ends;
    json["total"] = found.step_ends.back();
    json["step_period"] = period_of(found.step_ends);
  }
  return json.dump(2) + '\n';
}

/// The title of a column of bytes; empty without figures.
std::string column_name(const char* of, const byte_unit& unit,
                        const std::vector<double>& bytes) {
  return bytes.empty()
           ? ""
           : fmt::format(" {:>10}", fmt::format("{} {}", of, unit.name()));
}
std::string column(const byte_unit& unit, const std::vector<double>& bytes,
                   std::size_t rank) {
  return bytes.empty() ? "" : fmt::format(" {:>10}", unit.figure(bytes[rank]));
}

std::string to_table(const plan& plan, const simulated_plan& found) {
  const auto& [times, bytes, host_bytes, joint_bytes, step_ends] = found;
  const byte_unit unit{bytes.empty() ? 0 : std::ranges::max(bytes)};
  auto text = fmt::format(
    "{}: {}\n"
    "makespan {:.6g}, period {:.6g}, idle {:.1f} % ({:.1f} % between a "
    "rank's first and last op)\n\n{:>4} {:>8} {:>10}{}{}\n",
    printable(plan.schedule_name), sizes_of(plan), times.makespan, times.period,
    100 * times.bubble, 100 * times.span_bubble, "rank", "idle", "in flight",
    column_name("peak", unit, bytes), column_name("host", unit, host_bytes));
  for (std::size_t rank = 0; rank < times.idle.size(); ++rank)
    text +=
      fmt::format("{:>4} {:>6.1f} % {:>10}{}{}\n", rank, 100 * times.idle[rank],
                  times.in_flight[rank], column(unit, bytes, rank),
                  column(unit, host_bytes, rank));
  if (!bytes.empty())
    text += fmt::format("all ranks at once {}\n", unit.text(joint_bytes));
  text += "\ncritical path:";
  for (const auto& op : path_texts(plan, times))
    text += ' ' + op;
  text += '\n';
  if (!step_ends.empty())
    text +=
      fmt::format("\n{} steps: {:.6g}, one every {:.6g}\n", step_ends.size(),
                  step_ends.back(), period_of(step_ends));
  return text;
}

void find_bytes(const plan& plan, const search_inputs& inputs,
                simulated_plan& found) {
  if (inputs.sizes.empty())
    return;
  const auto sizes = inputs.sizes_of(division_of(plan));
  for (const auto& [stage, unused] : sizes.of_stage)
    if (stage >= plan.stages())
      spdlog::warn("--sizes: those of stage {} have no effect; {} has {}",
                   stage, plan.schedule_name, plan.stages());
  found.bytes = peak_bytes(plan, found.times, sizes);
  found.joint_bytes = joint_peak_bytes(plan, found.times, sizes);
  if (offloads(plan))
    found.host_bytes = host_peak_bytes(plan, found.times, sizes);
}

void run(const simulate_options& options) {
  if (options.barrier && options.steps == 0)
    fail(error_code::invalid_argument, "--barrier requires --steps");
  if (options.seeded->count() > 0 && options.disturbing.jitter == 0)
    spdlog::warn("--seed has no effect without --jitter");
  const auto plan = options.offload.apply(chosen_plan(options));
  auto costs = options.source.searching.costs_of(division_of(plan));
  costs.atomic_pairs = options.atomic_pairs;
  if (options.source.searching.memory_limit > 0
      && options.source.schedule != search_name)
    spdlog::warn("--memory-limit has no effect without --schedule search");
  if (const auto unused = without_effect(costs, plan); !unused.empty())
    spdlog::warn("--costs: {} has no effect, as {} has no such op or message",
                 fmt::join(unused, ", "), plan.schedule_name);
  auto disturbing = options.disturbing;
  if (!options.slow.empty())
    disturbing.of_rank =
      load_entries(options.slow, "slow ranks", parse_slow_ranks);
  const bool disturbs = !disturbing.of_rank.empty() || disturbing.jitter > 0;
  // Each step has jitter of its own.
  const auto costs_of = [&](std::int32_t step) {
    auto how = disturbing;
    how.seed += static_cast<std::uint64_t>(step);
    return disturbs ? disturbed(costs, plan, how) : costs;
  };
  simulated_plan found{.times = simulate(plan, costs_of(0), options.order)};
  find_bytes(plan, options.source.searching, found);
  found.step_ends = step_ends(plan, costs_of,
                              {.steps = options.steps,
                               .barrier = options.barrier,
                               .order = options.order});
  write_output("", options.json ? to_json(plan, found) : to_table(plan, found));
}

void add_what_if_flags(CLI::App& command, simulate_options& options) {
  add_value(command, "--slow ENTRIES|FILE", options.slow,
            "slow down ranks: rank.2=1.3 multiplies the times of rank 2's ops; "
            "or a file of such entries");
  add_value(command, "--jitter SIGMA", options.disturbing.jitter,
            "vary each op's time by a log-normal factor with this sigma",
            number(0, 10));
  options.seeded = add_value(command, "--seed N", options.disturbing.seed,
                             "seed of the jitter")
                     ->capture_default_str();
  add_choice(command, "--order ORDER", options.order, lane_orders(),
             "strict: in the lane's order; ready_first: W and updates overtake "
             "waiting ops, as with train --order ready_first; any_ready: any "
             "ready op does");
  add_value(
    command, "--steps N", options.steps,
    "consecutive steps; a rank begins the next one after its own update, or "
    "with --barrier after those of all ranks; each step has its own jitter",
    whole_number(1, 1 << 20));
  command.add_flag("--barrier", options.barrier,
                   "with --steps: all ranks begin each step together");
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto* command = app.add_subcommand(
    "simulate", "simulate a step: its time and the memory it holds");
  const auto options = std::make_shared<simulate_options>();
  add_plan_file(
    *command, options->path,
    "a plan, or CSV, compute only or lowered, instead of --schedule");
  options->source.add_to(*command);
  command->option_defaults()->group("Costs: times of ops and bytes of tensors");
  add_value(*command, "--costs ENTRIES|FILE", options->source.searching.costs,
            "times of ops on a rank's layers and a full microbatch, divided "
            "among its stages and slices, and of a message (its latency, and "
            "bytes / bandwidth, during which its channel is busy); f.2=3 is "
            "for an op of stage 2, message.0-1=3 for the link of ranks 0 and "
            "1. Also a file of such entries, a line each. Default: "
            "f=1,b=2,i=1,w=1,message=0");
  add_value(
    *command, "--sizes ENTRIES|FILE", options->source.searching.sizes,
    "bytes of a microbatch on a rank's layers, for the most that each rank "
    "holds: kept (by a forward for its backward), activation, gradient (as "
    "large, by default), parameters; kept.2=3e6 is for stage 2. Also a file "
    "of such entries");
  options->source.searching.add_memory_limit(*command);
  options->source.searching.add_per_stage(*command);
  command->option_defaults()->group(
    "Offloading: of activations to host memory");
  options->offload.add_to(*command);
  command->option_defaults()->group(
    "Simulation: slow ranks, jitter, order of ops, steps");
  add_what_if_flags(*command, *options);
  command->add_flag("--atomic-pairs", options->atomic_pairs,
                    "treat an overlapped pair as one op");
  command->add_flag(
    "--json", options->json,
    "makespan, period, idle, in_flight, critical_path, "
    "messages; with --sizes peak_bytes, joint_peak_bytes, of offloaded "
    "activations host_peak_bytes; with --steps step_ends, total, step_period");
  command->footer(list_schedules() +
                  "\nExample:\n  troupe simulate --schedule zb_h1 --ranks 4 "
                  "--microbatches 8 \\\n    --costs f=1,b=2,message=0.1");
  command->callback([options] { run(*options); });
}

}  // namespace troupe::cli
