#pragma once

#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/plan/searched_schedule.hpp"
#include "troupe/cli/plan/usual.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe::cli {

/// The flags that name a schedule and its shape, shared by `plan` and
/// `simulate`.
struct schedule_options {
  std::string schedule;  // empty: the default
  schedule_shape shape = usual_shape;
  std::int32_t data_parallel = 1;
  bool ties_embeddings = false;
  search_inputs searching{};

  void add_to(CLI::App& command);
  /// The built-in schedule, the file, or what a search finds. Throws `error`;
  /// invalid_argument if a flag contradicts the file. Warns of flags without
  /// effect.
  troupe::schedule find() const;
  /// The stages of a schedule that hold tied parameters.
  std::vector<std::int32_t> tied(const troupe::schedule& lanes) const;
  /// Warns of every given flag that is overridden by `what`.
  void warn_beside(const std::string& what) const;

 private:
  CLI::App* command_ = nullptr;
};

/// --ranks, --stages-per-rank, --microbatches and --slices.
void add_shape_flags(CLI::App& command, schedule_shape& shape);

/// The flags that a schedule's file determines: --config skips them.
std::vector<std::string> sizes_in_file();

/// Throws `invalid_argument` if a given flag contradicts the schedule's file.
void require_sizes_of_file(const CLI::App& command, const std::string& path,
                           const troupe::schedule& found);

/// Warns of a --breadth that the schedule doesn't use.
void warn_of_breadth(const std::string& schedule, std::int32_t breadth);

/// "2 ranks, 2 stages, 4 microbatches, 36 ops, 8 messages".
std::string sizes_of(const plan& plan);

/// A line for each built-in schedule, for --help.
std::string list_schedules();

/// Adds the file that a command reads, alone or as --plan.
void add_plan_file(CLI::App& command, std::string& path, const char* help);

/// Writes a file, whole or not at all; writes to standard output if the path is
/// empty.
void write_output(const std::string& path, const std::string& text);

}  // namespace troupe::cli
