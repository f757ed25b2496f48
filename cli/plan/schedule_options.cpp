#include "troupe/cli/plan/schedule_options.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/find_schedule.hpp"

namespace troupe::cli {

void add_shape_flags(CLI::App& command, schedule_shape& shape) {
  command.add_option("--ranks", shape.ranks, "pipeline ranks")
    ->capture_default_str()
    ->check(whole_number(1, 1 << 16))
    ->type_name("P");
  command
    .add_option("--stages-per-rank", shape.stages_per_rank, "stages per rank")
    ->capture_default_str()
    ->check(whole_number(1, 1 << 16))
    ->type_name("V");
  command
    .add_option("--microbatches", shape.microbatches, "microbatches per step")
    ->capture_default_str()
    ->check(whole_number(1, 1 << 20))
    ->type_name("M");
  command
    .add_option("--slices", shape.slices,
                "slices per microbatch, for schedules that support them")
    ->capture_default_str()
    ->check(whole_number(1, INT16_MAX))
    ->type_name("K");
}

void schedule_options::add_to(CLI::App& command) {
  command_ = &command;
  command
    .add_option("--schedule", schedule,
                "a schedule's name (listed below), or a file: CSV as PyTorch "
                "writes it, compute only, or the text form that plan writes")
    ->default_str(usual_schedules)
    ->type_name("NAME|FILE.csv");
  add_shape_flags(command, shape);
  command
    .add_option("--breadth", shape.breadth,
                "microbatches in a group of depth_first, or two_bw")
    ->check(whole_number(0, 1 << 20))
    ->type_name("N");
  command
    .add_option("--data-parallel", data_parallel,
                "replicas; more than one adds reductions")
    ->type_name("D")
    ->check(whole_number(1, 1 << 20));
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

std::string list_schedules() {
  std::string text =
    "Schedules (P ranks, V stages per rank, M microbatches):\n";
  for (const auto& row : builtin_schedules())
    text +=
      fmt::format("  {:<17} {} ({})\n", row.name, row.summary, row.accepts);
  return text
         + fmt::format("  {:<17} {} ({})\n", search_name, search_summary,
                       search_accepts);
}

void add_plan_file(CLI::App& command, std::string& path, const char* help) {
  command.add_option("file", path, help)->type_name("FILE");
  command.add_option("--plan", path, "the file, as a flag")
    ->excludes("file")
    ->type_name("FILE");
}

void write_output(const std::string& path, const std::string& text) {
  if (!path.empty())
    return write_file_atomically(path, text);
  print_now(text);
}

}  // namespace troupe::cli
