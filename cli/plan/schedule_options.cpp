#include "troupe/cli/plan/schedule_options.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "troupe/cli/plan/checks.hpp"
#include "troupe/schedules/atomic_file.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/error.hpp"
#include "troupe/schedules/find_schedule.hpp"

namespace troupe::cli {

void schedule_options::add_to(CLI::App& command) {
  command
    .add_option("--schedule", schedule,
                "a schedule's name (listed below), or a file: CSV as "
                "PyTorch writes it, compute only")
    ->type_name("NAME|FILE.csv");
  ranks_flag_ = command.add_option("--ranks", shape.ranks, "pipeline ranks")
                  ->check(whole_number(1, 1 << 16))
                  ->type_name("P");
  stages_flag_ =
    command
      .add_option("--stages-per-rank", shape.stages_per_rank, "stages a rank")
      ->check(whole_number(1, 1 << 16))
      ->type_name("V");
  microbatches_flag_ =
    command
      .add_option("--microbatches", shape.microbatches, "microbatches a step")
      ->check(whole_number(1, 1 << 20))
      ->type_name("M");
  breadth_flag_ = command
                    .add_option("--breadth", shape.breadth,
                                "microbatches in a group of depth_first")
                    ->check(whole_number(0, 1 << 20))
                    ->type_name("N");
  replicas_flag_ = command
                     .add_option("--data-parallel", data_parallel,
                                 "replicas; more than one adds reductions")
                     ->type_name("D")
                     ->check(whole_number(1, 1 << 20));
}

void schedule_options::check_flag(const CLI::Option* flag, std::int32_t given,
                                  std::int32_t in_file) const {
  if (flag->count() > 0 && given != in_file)
    fail(error_code::invalid_argument,
         "{} {}: but {} has {}; leave the flag away", flag->get_name(), given,
         schedule, in_file);
}

void schedule_options::warn_beside(const std::string& what) const {
  for (const auto* flag : {ranks_flag_, microbatches_flag_, stages_flag_,
                           breadth_flag_, replicas_flag_})
    if (flag->count() > 0)
      spdlog::warn("{} has no effect with {}", flag->get_name(), what);
}

troupe::schedule schedule_options::find() const {
  if (schedule.empty())
    fail(error_code::invalid_argument,
         "--schedule is missing; give a name or a file");
  auto found = find_schedule(schedule, shape);
  if (names_file(schedule)) {
    check_flag(ranks_flag_, shape.ranks, found.ranks());
    check_flag(microbatches_flag_, shape.microbatches, found.microbatches);
    if (stages_flag_->count() > 0)
      spdlog::warn("--stages-per-rank has no effect with --schedule {}",
                   schedule);
  }
  warn_of_breadth(schedule, shape.breadth);
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

std::string sizes_of(const plan& of) {
  return fmt::format(
    "{} ranks, {} stages, {} microbatches, {} ops, {} messages", of.ranks(),
    of.stages(), of.microbatches, of.ops.size(), of.messages.size());
}

std::string list_schedules() {
  std::string text = "Schedules (P ranks, V stages a rank, M microbatches):\n";
  for (const auto& row : builtin_schedules())
    text +=
      fmt::format("  {:<17} {} ({})\n", row.name, row.summary, row.accepts);
  return text;
}

void write_output(const std::string& path, const std::string& text) {
  if (!path.empty())
    return write_file_atomically(path, text);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()
      || std::fflush(stdout) != 0)
    fail(error_code::io, "standard output can't be written: {}",
         std::strerror(errno));
}

}  // namespace troupe::cli
