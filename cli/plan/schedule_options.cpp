#include "troupe/cli/plan/schedule_options.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/help.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

void add_shape_flags(CLI::App& command, schedule_shape& shape) {
  add_value(command, "--ranks P", shape.ranks, "pipeline ranks",
            whole_number(1, 1 << 16))
    ->capture_default_str();
  auto* stages =
    add_value(command, "--stages-per-rank V", shape.stages_per_rank,
              "stages per rank, by default 2 for schedules of several, else 1",
              whole_number(1, 1 << 16));
  add_value(command, "--microbatches M", shape.microbatches,
            "microbatches per step", whole_number(1, 1 << 20))
    ->capture_default_str();
  auto* slices = add_value(
    command, "--slices K", shape.slices,
    "slices per microbatch, for schedules that support them, by default 4 of "
    "seq_1f1b, else 1",
    whole_number(1, INT16_MAX));
  if (shape.stages_per_rank > 0)
    stages->capture_default_str();
  if (shape.slices > 0)
    slices->capture_default_str();
}

void schedule_options::add_to(CLI::App& command) {
  command_ = &command;
  command.option_defaults()->group(
    "Schedule: its name, or its file, and its sizes");
  add_value(command, "--schedule NAME|FILE.csv", schedule,
            "a name (see `troupe schedules`), or a file: CSV as PyTorch "
            "writes it, compute only, or the text form that plan writes")
    ->default_str(usual_schedules);
  add_shape_flags(command, shape);
  add_value(command, "--breadth N", shape.breadth,
            "microbatches in a group of depth_first, or two_bw",
            whole_number(0, 1 << 20));
  add_value(command, "--data-parallel D", data_parallel,
            "replicas; more than one adds reductions",
            whole_number(1, 1 << 20));
  command.add_flag("--tie-embeddings", ties_embeddings,
                   "the first and the last stage share a parameter, whose "
                   "gradients are summed (SUM_TIED)");
}

std::vector<std::int32_t> schedule_options::tied(
  const troupe::schedule& lanes) const {
  if (!ties_embeddings)
    return {};
  return lanes.stages() == 1 ? std::vector{0}
                             : std::vector{0, lanes.stages() - 1};
}

void schedule_options::warn_beside(const std::string& what) const {
  for (const auto* flag :
       {"--ranks", "--microbatches", "--stages-per-rank", "--breadth",
        "--slices", "--data-parallel", "--tie-embeddings"})
    if (command_->count(flag) > 0)
      spdlog::warn("{} has no effect with {}", flag, what);
}

choices<lane_order> lane_orders() {
  return {{"strict", lane_order::strict},
          {"ready_first", lane_order::ready_first},
          {"any_ready", lane_order::any_ready}};
}

std::vector<std::string> sizes_in_file() {
  return {"ranks", "stages-per-rank", "microbatches"};
}

void require_sizes_of_file(const CLI::App& command, const std::string& path,
                           const troupe::schedule& found) {
  const auto require = [&](const char* flag, std::int32_t in_file) {
    const auto* option = command.get_option_no_throw(flag);
    if (option != nullptr && option->count() > 0
        && option->as<std::int32_t>() != in_file)
      fail(error_code::invalid_argument, "{} {}: but {} has {}; omit the flag",
           flag, option->as<std::int32_t>(), path, in_file);
  };
  require("--ranks", found.ranks());
  require("--microbatches", found.microbatches);
  require("--stages-per-rank", found.stages() / found.ranks());
  require("--slices", found.slices);
}

troupe::schedule schedule_options::find() const {
  auto found = named_schedule(schedule, shape, searching, data_parallel);
  if (names_file(schedule))
    require_sizes_of_file(*command_, schedule, found);
  warn_of_breadth(schedule.empty() ? found.name : schedule, shape.breadth);
  return found;
}

void warn_of_breadth(const std::string& schedule, std::int32_t breadth) {
  const auto has_breadth = [&](const builtin_schedule& row) {
    return row.name == schedule && row.has_breadth;
  };
  if (breadth != 0 && !std::ranges::any_of(builtin_schedules(), has_breadth))
    spdlog::warn("--breadth {} has no effect with --schedule {}", breadth,
                 schedule);
}

std::string sizes_of(const plan& plan) {
  return fmt::format(
    "{} ranks, {} stages, {} microbatches, {} ops, {} messages", plan.ranks(),
    plan.stages(), plan.microbatches, plan.ops.size(), plan.messages.size());
}

namespace {

/// A line, or two where one would exceed the columns of a screen.
std::string schedule_entry(std::string_view name, std::string_view summary,
                           std::string_view accepts) {
  auto entry = fmt::format("  {:<17} {}", name, summary);
  const auto sizes = fmt::format(" ({})", accepts);
  if (entry.size() + sizes.size() > help_columns)
    entry += '\n' + std::string(19, ' ');
  return entry + sizes + '\n';
}

}  // namespace

std::string list_schedules() {
  std::string text =
    "Schedules (P ranks, V stages per rank, m microbatches):\n";
  for (const auto& row : builtin_schedules())
    text += schedule_entry(row.name, row.summary, row.accepts);
  return text + schedule_entry(search_name, search_summary, search_accepts);
}

void add_plan_file(CLI::App& command, std::string& path, const char* help) {
  add_value(command, "file FILE", path, help);
  add_value(command, "--plan FILE", path, "the file, as a flag")
    ->excludes("file");
}

void write_output(const std::string& path, const std::string& text) {
  if (!path.empty())
    return write_file_atomically(path, text);
  print_now(text);
}

namespace {

using placements = std::vector<std::pair<std::string, placement>>;

// The placement of dualpipe, which refuses unsupported shapes.
placement bidirectional(const schedule_shape& shape) {
  return make_schedule("dualpipe", shape).placement;
}

placements placements_of(const schedule_shape& shape) {
  const auto stages = shape.ranks * shape.stages_per_rank;
  placements all{{"looped", placement::looped(shape.ranks, stages)}};
  if (shape.stages_per_rank % 2 == 0)
    all.emplace_back("waves", placement::waves(shape.ranks, stages));
  try {
    all.emplace_back("bidirectional", bidirectional(shape));
  } catch (const error&) {
  }
  return all;
}

placements placements_of(const schedule_shape& shape, const std::string& name) {
  auto all = placements_of(shape);
  if (name == "best")
    return all;
  std::erase_if(all, [&](const auto& each) { return each.first != name; });
  if (all.empty() && name == "waves")
    fail(error_code::invalid_argument,
         "--placement waves: --stages-per-rank must be even, but is {}",
         shape.stages_per_rank);
  if (all.empty())
    all.emplace_back(name, bidirectional(shape));  // throws with the reason
  return all;
}

bool shorter(const placed_search& a, const placed_search& b) {
  return std::pair{a.result.period, a.result.makespan}
         < std::pair{b.result.period, b.result.makespan};
}

}  // namespace

void search_inputs::add_to(CLI::App& command, const std::string& when) {
  add_value(command, "--costs ENTRIES|FILE", costs,
            when + "times of ops on a rank's layers, as simulate takes them "
                   "and `train --costs-out` writes them");
  add_value(command, "--sizes ENTRIES|FILE", sizes,
            when + "bytes of a microbatch, as simulate takes them");
  add_memory_limit(command, when);
}

void search_inputs::add_per_stage(CLI::App& command, const std::string& when) {
  command.add_flag("--per-stage", per_stage,
                   when
                     + "costs and sizes are those of one stage and slice; by "
                       "default those of all layers of a rank and a full "
                       "microbatch, which are divided. Entries of single "
                       "stages, as f.2=3, are never divided");
}

op_costs search_inputs::costs_of(const division& of) const {
  return divided(load_costs(costs), per_stage ? division{} : of);
}

value_sizes search_inputs::sizes_of(const division& of) const {
  return load_sizes(sizes, per_stage ? division{} : of);
}

void search_inputs::add_memory_limit(CLI::App& command,
                                     const std::string& when) {
  add_value(command, "--memory-limit BYTES", memory_limit,
            when + "most bytes that a rank may hold, by --sizes; 0: any",
            number(0));
}

bool search_inputs::is_set() const {
  return !costs.empty() || !sizes.empty() || memory_limit > 0;
}

search_problem problem_of(const schedule_shape& shape,
                          const search_inputs& inputs) {
  search_problem problem{.microbatches = shape.microbatches,
                         .slices = shape.slices,
                         .costs = inputs.costs_of(division_of(shape)),
                         .memory_limit = inputs.memory_limit};
  const auto stages =
    std::int64_t{shape.ranks} * std::int64_t{shape.stages_per_rank};
  for (const auto& entry : problem.costs.entries)
    if (entry.stage >= stages)
      spdlog::warn("--costs: {} has no effect, as there are {} stages",
                   entry.text, stages);
  if (!inputs.sizes.empty())
    problem.sizes = inputs.sizes_of(division_of(shape));
  else if (problem.memory_limit > 0)
    fail(error_code::invalid_argument, "--memory-limit needs --sizes");
  return problem;
}

placed_search search_placements(const search_problem& problem,
                                const schedule_shape& shape,
                                const std::string& placement) {
  std::optional<placed_search> best;
  std::optional<error> refused;
  std::optional<placed_search> builtin;
  for (auto& [name, where] : placements_of(shape, placement)) {
    auto placed = problem;
    placed.placement = std::move(where);
    try {
      placed_search found{name, search(placed)};
      if (!found.result.builtin.empty()
          && (!builtin
              || found.result.builtin_period < builtin->result.builtin_period))
        builtin = found;
      if (!best || shorter(found, *best))
        best = std::move(found);
    } catch (const error& reason) {
      refused = reason;
    }
  }
  if (!best)
    throw *refused;
  if (builtin) {
    best->result.builtin = builtin->result.builtin;
    best->result.builtin_period = builtin->result.builtin_period;
    best->builtin_placement = builtin->placement;
  }
  return std::move(*best);
}

std::string named_or_usual(const std::string& name,
                           const schedule_shape& shape) {
  if (!name.empty())
    return name;
  return shape.slices > 1 ? usual_schedule_of_slices : usual_schedule;
}

schedule named_schedule(const std::string& requested,
                        const schedule_shape& requested_shape,
                        const search_inputs& inputs,
                        std::int32_t data_parallel) {
  const auto name = named_or_usual(requested, requested_shape);
  const auto shape = with_usual_sizes(name, requested_shape);
  if (name == search_name) {
    auto problem = problem_of(shape, inputs);
    problem.compiling.data_parallel = data_parallel;
    return search_placements(problem, shape).result.found;
  }
  try {
    return find_schedule(name, shape);
  } catch (const error& reason) {
    if (reason.code() != error_code::unknown_schedule)
      throw;
    const std::string_view text = reason.what();
    fail(reason.code(), "{}{} '{}' searches for one", text,
         text.ends_with('?') ? "" : ";", search_name);
  }
}

void offload_flags::add_to(CLI::App& command) {
  command
    .add_option_function<std::string>(
      "--offload-activations",
      [this](const std::string& text) { what_ = text.empty() ? "all" : text; },
      "offload activations that forwards keep for their backwards to host "
      "memory (OFFLOAD, RELOAD): all, a fraction, or by stage: "
      "all=0.5,stage.0=1; or a file of such entries")
    ->expected(0, 1)
    ->type_name("[all|FRACTION|ENTRIES|FILE]");
  add_value(command, "--offload-ahead N", ahead_,
            "start reloads this many ops of the rank before the backward: more "
            "hides a slower copy and holds memory longer",
            whole_number(1, 1 << 20))
    ->capture_default_str();
  add_value(command, "--offload-least-stay N", least_stay_,
            "least number of ops between a forward and its backward for an "
            "offload; 0: two more than --offload-ahead",
            whole_number(0, 1 << 20));
}

offload_options offload_flags::options() const {
  auto options = what_.empty() ? offload_options{} : load_offload(what_);
  options.ahead = ahead_;
  options.least_stay = least_stay_;
  if (!offloads(options)
      && (ahead_ != offload_options{}.ahead
          || least_stay_ != offload_options{}.least_stay))
    spdlog::warn(
      "--offload-ahead and --offload-least-stay have no effect without "
      "--offload-activations");
  return options;
}

plan offload_flags::apply(plan before) const {
  const auto chosen = options();
  return offloads(chosen) ? offloaded(before, chosen) : std::move(before);
}

}  // namespace troupe::cli
