#include "troupe/cli/plan/search_command.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/engine/plan/draw.hpp"
#include "troupe/engine/plan/plan_text.hpp"
#include "troupe/engine/plan/search.hpp"
#include "troupe/engine/plan/timeline.hpp"
#include "troupe/schedules/csv.hpp"

namespace troupe::cli {

namespace {

struct search_options {
  schedule_shape shape = usual_shape;
  search_problem problem{};
  std::string placement = "best";
  std::string costs;
  std::string sizes;
  bool full_backward = false;
  bool json = false;
  bool draw = false;
  terminal_style style{};
  std::string output;
};

/// A search on one placement.
struct placed_search {
  std::string placement;
  search_result result;
};

std::vector<std::pair<std::string, placement>> placements(
  const search_options& options) {
  const auto ranks = options.shape.ranks;
  const auto per_rank = options.shape.stages_per_rank;
  if (options.placement == "waves" && per_rank % 2 != 0)
    fail(error_code::invalid_argument,
         "--placement waves: --stages-per-rank must be even, but is {}",
         per_rank);
  std::vector<std::pair<std::string, placement>> all;
  if (options.placement != "waves")
    all.emplace_back("looped", placement::looped(ranks, ranks * per_rank));
  if (options.placement != "looped" && per_rank % 2 == 0)
    all.emplace_back("waves", placement::waves(ranks, ranks * per_rank));
  return all;
}

bool shorter(const placed_search& a, const placed_search& b) {
  return std::pair{a.result.period, a.result.makespan}
         < std::pair{b.result.period, b.result.makespan};
}

// The best of all placements; the catalogue's best of all, too.
placed_search find(const search_options& options) {
  std::optional<placed_search> best;
  std::optional<error> refused;
  std::string known;
  double known_period = 0;
  for (auto& [name, placement] : placements(options)) {
    auto problem = options.problem;
    problem.placement = std::move(placement);
    try {
      placed_search found{name, search(problem)};
      if (!found.result.known.empty()
          && (known.empty() || found.result.known_period < known_period)) {
        known = found.result.known;
        known_period = found.result.known_period;
      }
      if (!best || shorter(found, *best))
        best = std::move(found);
    } catch (const error& reason) {
      refused = reason;
    }
  }
  if (!best)
    throw *refused;
  best->result.known = known;
  best->result.known_period = known_period;
  return std::move(*best);
}

/// Of a value that is at least `base`, but for rounding.
double percent_above(double value, double base) {
  return base > 0 ? std::max(0.0, 100 * (value / base - 1)) : 0;
}

std::string to_json(const placed_search& found, bool has_sizes) {
  const auto& result = found.result;
  nlohmann::ordered_json json{{"placement", found.placement},
                              {"period", result.period},
                              {"makespan", result.makespan},
                              {"lower_bound", result.lower_bound}};
  if (has_sizes)
    json["peak_bytes"] = result.peak_bytes;
  if (!result.known.empty()) {
    json["known"] = result.known;
    json["known_period"] = result.known_period;
  }
  return json.dump(2) + '\n';
}

std::string to_table(const placed_search& found, bool has_sizes) {
  const auto& result = found.result;
  auto text = fmt::format(
    "placement {}, period {:.6g}, makespan {:.6g}\n"
    "lower bound {:.6g}: the period is {:.2f} % above it\n",
    found.placement, result.period, result.makespan, result.lower_bound,
    percent_above(result.period, result.lower_bound));
  text += result.known.empty()
            ? std::string{"no schedule of the catalogue fits\n"}
            : fmt::format(
              "best of the catalogue: {}, period {:.6g}, {:.2f} % "
              "above the one found\n",
              result.known, result.known_period,
              percent_above(result.known_period, result.period));
  if (has_sizes)
    text += fmt::format("peak {:.1f} MiB\n", result.peak_bytes / (1 << 20));
  return text;
}

std::string drawing(const schedule& lanes, const search_problem& problem,
                    const terminal_style& style) {
  const auto step = compile(lanes, problem.compiling);
  return draw_terminal(to_timeline(step, simulate(step, problem.costs)), style);
}

bool writes_csv(const search_options& options) {
  return options.output.ends_with(".csv");
}

void run(search_options options) {
  auto& problem = options.problem;
  problem.microbatches = options.shape.microbatches;
  problem.slices = options.shape.slices;
  problem.costs = load_costs(options.costs);
  problem.split_backward = !options.full_backward;
  const bool has_sizes = !options.sizes.empty();
  if (has_sizes)
    problem.sizes = load_sizes(options.sizes);
  else if (problem.memory_limit > 0)
    fail(error_code::invalid_argument, "--memory-limit needs --sizes");
  if (writes_csv(options) && problem.slices > 1)
    fail(error_code::invalid_argument,
         "-o {}: CSV has no slices; write a plan, under a name that does not "
         "end in .csv",
         options.output);
  const auto found = find(options);
  if (!options.output.empty())
    write_output(options.output,
                 writes_csv(options)
                   ? to_csv(found.result.found)
                   : to_text(compile(found.result.found, problem.compiling)));
  auto text =
    options.json ? to_json(found, has_sizes) : to_table(found, has_sizes);
  if (options.draw)
    text += drawing(found.result.found, problem, options.style);
  write_output("", text);
}

void add_job_flags(CLI::App& command, search_options& options) {
  add_shape_flags(command, options.shape);
  command
    .add_option("--data-parallel", options.problem.compiling.data_parallel,
                "replicas; more than one adds reductions")
    ->check(whole_number(1, 1 << 20))
    ->type_name("D");
  command
    .add_option("--costs", options.costs,
                "times of ops, as simulate takes them and `train --costs-out` "
                "writes them; f.2=3 is for stage 2")
    ->type_name("ENTRIES|FILE");
  command
    .add_option("--sizes", options.sizes,
                "bytes of a microbatch, as simulate takes them")
    ->type_name("ENTRIES|FILE");
  command
    .add_option("--memory-limit", options.problem.memory_limit,
                "most bytes that a rank may hold, by --sizes")
    ->check(number(0))
    ->type_name("BYTES");
}

}  // namespace

void add_search_command(CLI::App& app) {
  auto* command = app.add_subcommand(
    "search", "the shortest schedule for measured costs and a memory limit");
  const auto options = std::make_shared<search_options>();
  add_job_flags(*command, *options);
  command
    ->add_option("--placement", options->placement,
                 "looped: stage s on rank s mod P; waves: down the ranks and "
                 "up again, a V with two stages a rank; best: the better one")
    ->check(CLI::IsMember({"best", "looped", "waves"}))
    ->capture_default_str()
    ->type_name("PLACEMENT");
  command->add_flag("--full-backward", options->full_backward,
                    "no backward is split into I and W");
  command
    ->add_option("--effort", options->problem.effort,
                 "schedules that are simulated on each placement, beside the "
                 "catalogue's")
    ->capture_default_str()
    ->check(whole_number(0, 1 << 30))
    ->type_name("N");
  command
    ->add_option("--seed", options->problem.seed,
                 "of the random moves; the same seed finds the same schedule")
    ->capture_default_str()
    ->type_name("N");
  command->add_flag("--json", options->json,
                    "placement, period, makespan, lower_bound, known, "
                    "known_period; with --sizes peak_bytes");
  auto* draw = command->add_flag("--draw", options->draw, "the step, too");
  draw->excludes("--json");
  command->add_option("--width", options->style.width, "columns of the drawing")
    ->needs(draw)
    ->capture_default_str()
    ->check(whole_number(20, 10000))
    ->type_name("N");
  command
    ->add_option("-o,--output", options->output,
                 "FILE.csv: the schedule, for --schedule; another name: the "
                 "plan, for --plan")
    ->type_name("FILE");
  command->footer(
    "Example:\n  troupe search --ranks 8 --stages-per-rank 2 --microbatches 32 "
    "--costs costs.txt --sizes kept=4e6,activation=1e6 --memory-limit 6e7 "
    "-o found.csv");
  command->callback([options] { run(*options); });
}

}  // namespace troupe::cli
