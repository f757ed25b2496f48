#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "troupe/base/fail.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/plan/terminal.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/draw/timeline.hpp"
#include "troupe/engine/plan/search/search.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::cli {

namespace {

struct search_options {
  schedule_shape shape = with_usual_sizes(search_name, usual_shape);
  search_inputs inputs{};
  search_problem problem{};  // its effort, seed and replicas
  std::string placement = "best";
  double time_limit = 0;  // seconds; 0: none
  bool full_backward = false;
  bool json = false;
  bool draw = false;
  terminal_style style{};
  std::string output;
};

/// By how many percent a value exceeds `base`; 0 if it is less by rounding.
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
  if (!result.builtin.empty()) {
    json["known"] = result.builtin;
    json["known_placement"] = found.builtin_placement;
    json["known_period"] = result.builtin_period;
  }
  return json.dump(2) + '\n';
}

std::string to_table(const placed_search& found, bool has_sizes) {
  const auto& result = found.result;
  auto text = fmt::format(
    "placement {}, period {:.6g}, makespan {:.6g}\n"
    "lower bound on this placement {:.6g}: the period is {:.2f} % above it\n",
    found.placement, result.period, result.makespan, result.lower_bound,
    percent_above(result.period, result.lower_bound));
  text += result.builtin.empty()
            ? std::string{"no built-in schedule fits\n"}
            : fmt::format(
              "best of the catalogue: {}, placement {}, period {:.6g}, {:.2f} "
              "% above the one found\n",
              result.builtin, found.builtin_placement, result.builtin_period,
              percent_above(result.builtin_period, result.period));
  if (has_sizes)
    text += fmt::format("peak {}\n",
                        byte_unit{result.peak_bytes}.text(result.peak_bytes));
  return text;
}

std::string draw_lanes(const schedule& lanes, const search_problem& problem,
                       terminal_style style) {
  const auto step = compile(lanes, problem.compiling);
  const auto picture = to_timeline(step, simulate(step, problem.costs));
  style.unicode = shows_unicode();
  return draw_terminal(picture, style) + terminal_legend(picture);
}

bool writes_csv(const search_options& options) {
  return options.output.ends_with(".csv");
}

std::string output_text(const search_options& options, const schedule& found,
                        const search_problem& problem) {
  if (writes_csv(options)) {
    if (found.placement.copies() > 1)
      fail(error_code::invalid_argument,
           "-o {}: the schedule found has two copies of each stage, which CSV "
           "can't express; write it to a file whose name ends in .schedule, or "
           "give --placement looped or waves",
           options.output);
    return to_csv(found);
  }
  return options.output.ends_with(".schedule")
           ? to_text_form(found)
           : to_text(compile(found, problem.compiling));
}

/// Returns whether a search must end by its time limit, and informs a user who
/// has waited for long about that limit.
std::function<bool()> watch_of(double time_limit) {
  using clock = std::chrono::steady_clock;
  return [time_limit, begin = clock::now(), reported = false]() mutable {
    constexpr double long_wait = 10;
    const auto seconds =
      std::chrono::duration<double>(clock::now() - begin).count();
    if (!reported && seconds > long_wait) {
      reported = true;
      spdlog::info("still searching; --effort and --time-limit bound it");
    }
    return time_limit > 0 && seconds > time_limit;
  };
}

search_problem problem_of(const search_options& options) {
  auto problem = problem_of(options.shape, options.inputs);
  problem.compiling = options.problem.compiling;
  problem.effort = options.problem.effort;
  problem.seed = options.problem.seed;
  problem.split_backward = !options.full_backward;
  problem.stopped = watch_of(options.time_limit);
  return problem;
}

void run(const search_options& options) {
  const auto problem = problem_of(options);
  const bool has_sizes = problem.sizes.has_value();
  if (writes_csv(options) && problem.slices > 1)
    fail(error_code::invalid_argument,
         "-o {}: CSV cannot express slices; use a name that ends in .schedule",
         options.output);
  const auto found =
    search_placements(problem, options.shape, options.placement);
  if (!options.output.empty())
    write_output(options.output,
                 output_text(options, found.result.found, problem));
  auto text =
    options.json ? to_json(found, has_sizes) : to_table(found, has_sizes);
  if (options.draw)
    text += draw_lanes(found.result.found, problem, options.style);
  write_output("", text);
}

void add_job_flags(CLI::App& command, search_options& options) {
  add_shape_flags(command, options.shape);
  add_value(
    command, "--data-parallel D", options.problem.compiling.data_parallel,
    "replicas; more than one adds reductions", whole_number(1, 1 << 20));
  options.inputs.add_to(command, "");
  options.inputs.add_per_stage(command);
}

}  // namespace

void add_search_command(CLI::App& app) {
  auto* command = app.add_subcommand(
    "search", "search for the shortest schedule for costs and a memory limit");
  const auto options = std::make_shared<search_options>();
  add_job_flags(*command, *options);
  add_value(*command, "--placement PLACEMENT", options->placement,
            "looped: stage s on rank s mod P; waves: down the ranks and up "
            "again, a V with two stages per rank; bidirectional: two copies of "
            "each stage, as dualpipe; best: the best of them",
            one_of({"best", "looped", "waves", "bidirectional"}))
    ->capture_default_str();
  command->add_flag("--full-backward", options->full_backward,
                    "do not split backwards into I and W");
  add_value(*command, "--effort N", options->problem.effort,
            "schedules to simulate per placement, besides the catalogue",
            whole_number(0, 1 << 30))
    ->default_str("(3000, for large jobs fewer)");
  add_value(
    *command, "--time-limit S", options->time_limit,
    "seconds after which the best schedule so far is taken; 0: no limit",
    number(0));
  add_value(*command, "--seed N", options->problem.seed,
            "seed of the random moves; the same seed finds the same schedule")
    ->capture_default_str();
  command->add_flag("--json", options->json,
                    "placement, period, makespan, lower_bound, known, "
                    "known_placement, known_period; with --sizes peak_bytes");
  auto* draw = command->add_flag("--draw", options->draw, "also draw the step");
  draw->excludes("--json");
  add_value(*command, "--width N", options->style.width,
            "columns of the drawing", whole_number(20, 10000))
    ->needs(draw)
    ->capture_default_str();
  add_value(*command, "-o,--output FILE", options->output,
            "FILE.csv or FILE.schedule: the schedule, for --schedule; another "
            "name: the plan, for --plan");
  command->footer(
    "Example:\n  troupe search --ranks 8 --stages-per-rank 2 --microbatches 32 "
    "\\\n"
    "    --costs costs.txt --sizes kept=4e6,activation=1e6 \\\n"
    "    --memory-limit 6e7 -o found.csv");
  command->callback([options] { run(*options); });
}

}  // namespace troupe::cli
