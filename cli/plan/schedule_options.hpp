#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe::cli {

/// The flags that name a schedule and its shape, shared by `plan` and
/// `simulate`.
struct schedule_options {
  std::string schedule;
  schedule_shape shape;
  std::int32_t data_parallel = 1;

  void add_to(CLI::App& command);
  /// The built-in schedule or the file. Throws `error`; invalid_argument
  /// where a flag contradicts the file. Warns of flags without effect.
  troupe::schedule find() const;
  /// Warns of every flag that was given, where something else counts.
  void warn_beside(const std::string& what) const;

 private:
  void check_flag(const CLI::Option* flag, std::int32_t given,
                  std::int32_t in_file) const;

  CLI::Option* ranks_flag_ = nullptr;
  CLI::Option* microbatches_flag_ = nullptr;
  CLI::Option* stages_flag_ = nullptr;
  CLI::Option* breadth_flag_ = nullptr;
  CLI::Option* replicas_flag_ = nullptr;
};

/// Warns of a --breadth that the schedule has none of.
void warn_of_breadth(const std::string& schedule, std::int32_t breadth);

/// "2 ranks, 2 stages, 4 microbatches, 36 ops, 8 messages".
std::string sizes_of(const plan& of);

/// A line for each built-in schedule, for --help.
std::string list_schedules();

/// Writes to a file, whole or not at all; to standard output if the path is
/// empty.
void write_output(const std::string& path, const std::string& text);

}  // namespace troupe::cli
