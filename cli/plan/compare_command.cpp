#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/engine/plan/search/compare.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

using json = nlohmann::ordered_json;

struct compare_options {
  comparison job{.shape = {.ranks = usual_shape.ranks,
                           .stages_per_rank = 2,
                           .microbatches = usual_shape.microbatches,
                           .slices = 4}};
  std::string costs;
  std::string sizes;
  double memory_limit = 0;  // bytes; 0: none
  bool searches = false;
  bool json = false;
};

// The stages per rank with which the built-in schedules run.
std::vector<schedule_shape> searched_shapes(const schedule_shape& job) {
  std::vector<schedule_shape> all;
  const auto requested = job.stages_per_rank;
  for (const auto stages :
       std::set{1, 2, requested, requested + requested % 2}) {
    auto& shape = all.emplace_back(job);
    shape.stages_per_rank = stages;
    shape.slices = 1;
  }
  if (job.slices > 1) {
    auto& sliced = all.emplace_back(job);
    sliced.stages_per_rank = 1;
  }
  return all;
}

compared_schedule search_row(const comparison& job, double memory_limit,
                             const schedule_shape& shape) {
  compared_schedule row{.name = std::string{search_name}, .shape = shape};
  search_problem problem{.microbatches = shape.microbatches,
                         .slices = shape.slices,
                         .costs = divided(job.costs, division_of(shape)),
                         .compiling = {.data_parallel = job.data_parallel},
                         .memory_limit = memory_limit};
  if (job.sizes)
    problem.sizes = {.usual = divided(*job.sizes, division_of(shape)),
                     .of_stage = {}};
  try {
    return compared(search_placements(problem, shape).result.found, job, row);
  } catch (const error& reason) {
    row.refused = reason.what();
    return row;
  }
}

// Adds rows in the order of `compare_schedules`.
void add_searched(const compare_options& options,
                  std::vector<compared_schedule>& rows) {
  const auto order = [](const compared_schedule& row) {
    return std::pair(!row.refused.empty(), row.period);
  };
  std::optional<compared_schedule> best;
  for (const auto& shape : searched_shapes(options.job.shape)) {
    auto row = search_row(options.job, options.memory_limit, shape);
    if (!best || order(row) < order(*best))
      best = std::move(row);
  }
  rows.insert(std::ranges::lower_bound(rows, order(*best), {}, order),
              std::move(*best));
}

bool fits(const compared_schedule& row, const compare_options& options) {
  return row.refused.empty()
         && (options.memory_limit == 0
             || row.peak_bytes <= options.memory_limit);
}

std::string to_json(const std::vector<compared_schedule>& rows,
                    const compare_options& options) {
  auto all = json::array();
  for (const auto& row : rows) {
    json entry{{"schedule", row.name},
               {"stages_per_rank", row.shape.stages_per_rank},
               {"slices", row.shape.slices}};
    if (row.refused.empty()) {
      entry["makespan"] = row.makespan;
      entry["period"] = row.period;
      entry["idle"] = row.idle;
      entry["in_flight"] = row.in_flight;
      if (options.job.sizes)
        entry["peak_bytes"] = row.peak_bytes;
      entry["messages"] = row.messages;
    } else {
      entry["refused"] = row.refused;
    }
    entry["fits"] = fits(row, options);
    all.push_back(std::move(entry));
  }
  return all.dump(2) + '\n';
}

std::string to_table(const std::vector<compared_schedule>& rows,
                     const compare_options& options) {
  const bool has_sizes = options.job.sizes.has_value();
  double most = 0;
  for (const auto& row : rows)
    most = std::max(most, row.peak_bytes);
  const byte_unit unit{most};
  auto text = fmt::format(
    "{:<17} {:>2} {:>2} {:>9} {:>9} {:>7} {:>10}{} {:>9}\n", "schedule", "V",
    "K", "period", "makespan", "idle", "in flight",
    has_sizes ? fmt::format(" {:>10}", fmt::format("peak {}", unit.name()))
              : "",
    "messages");
  std::string refused;
  for (const auto& row : rows) {
    if (!row.refused.empty())
      refused += row.refused + '\n';
    else if (!fits(row, options))
      refused += fmt::format("{}: {} exceed the memory limit\n", row.name,
                             unit.text(row.peak_bytes));
    else
      text += fmt::format(
        "{:<17} {:>2} {:>2} {:>9.6g} {:>9.6g} {:>5.1f} % {:>10.4g}{} {:>9}\n",
        row.name, row.shape.stages_per_rank, row.shape.slices, row.period,
        row.makespan, 100 * row.idle, row.in_flight,
        has_sizes ? fmt::format(" {:>10}", unit.figure(row.peak_bytes)) : "",
        row.messages);
  }
  return text + (refused.empty() ? "" : "\n" + refused);
}

void run(compare_options options) {
  options.job.costs =
    costs_of_rank(load_costs(options.costs), options.job.shape.ranks);
  if (!options.sizes.empty()) {
    const auto sizes = load_sizes(options.sizes);
    if (!sizes.of_stage.empty())
      throw error(error_code::invalid_argument,
                  "--sizes: schedules divide a rank's sizes among its stages; "
                  "omit those of single stages");
    options.job.sizes = sizes.usual;
  }
  if (options.memory_limit > 0 && !options.job.sizes)
    throw error(error_code::invalid_argument,
                "--memory-limit needs --sizes, of one rank's layers");
  auto rows = compare_schedules(options.job);
  if (options.searches)
    add_searched(options, rows);
  write_output("",
               options.json ? to_json(rows, options) : to_table(rows, options));
}

}  // namespace

void add_schedules_command(CLI::App& app) {
  auto* command =
    app.add_subcommand("schedules", "list the built-in schedules");
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "schedule, summary, accepts");
  command->callback([as_json] {
    if (!*as_json)
      return write_output("", list_schedules());
    auto all = json::array();
    for (const auto& row : builtin_schedules())
      all.push_back({{"schedule", row.name},
                     {"summary", row.summary},
                     {"accepts", row.accepts}});
    all.push_back({{"schedule", search_name},
                   {"summary", search_summary},
                   {"accepts", search_accepts}});
    write_output("", all.dump(2) + '\n');
  });
}

void add_compare_command(CLI::App& app) {
  auto* command =
    app.add_subcommand("compare", "all schedules for a job, on paper");
  const auto options = std::make_shared<compare_options>();
  add_shape_flags(*command, options->job.shape);
  add_value(*command, "--data-parallel D", options->job.data_parallel,
            "replicas; more than one adds reductions",
            whole_number(1, 1 << 20));
  add_value(*command, "--costs ENTRIES|FILE", options->costs,
            "times of ops on all of a rank's layers, and of a message, as "
            "simulate takes them; divided among stages and slices. Those of "
            "single stages, as `train --costs-out` writes them, are first "
            "shared equally among the ranks");
  add_value(*command, "--sizes ENTRIES|FILE", options->sizes,
            "bytes of a microbatch on all of a rank's layers, as simulate "
            "takes them; divided likewise");
  add_value(*command, "--memory-limit BYTES", options->memory_limit,
            "memory limit per rank, in bytes; schedules that exceed it are "
            "listed separately; 0: none",
            number(0));
  command->add_flag("--search", options->searches,
                    "also search for a schedule, with 1, 2 or V stages per "
                    "rank, or with slices; takes seconds");
  command->add_flag("--json", options->json, "an array, a schedule each");
  command->footer(
    "Example:\n  troupe compare --ranks 8 --microbatches 16 \\\n"
    "    --costs f=1,b=2,i=1,w=1,message=0.1");
  command->callback([options] { run(*options); });
}

}  // namespace troupe::cli
