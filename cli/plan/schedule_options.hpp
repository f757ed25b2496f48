#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/cli/plan/choices.hpp"
#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/plan/compile/offload.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/lane_executor.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/engine/plan/search/search.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe::cli {

/// The inputs of a search besides the shape of the job.
struct search_inputs {
  std::string costs;        // entries or a file; empty: the usual ones
  std::string sizes;        // entries or a file; empty: the defaults
  double memory_limit = 0;  // the same; empty: memory is ignored
  /// Costs and sizes are of one stage, instead of all layers of a rank.
  bool per_stage = false;

  static constexpr auto by_name = "with --schedule search: ";

  /// Declares --costs, --sizes and --memory-limit; `when` begins their help.
  void add_to(CLI::App& command, const std::string& when = by_name);
  void add_memory_limit(CLI::App& command, const std::string& when = by_name);
  void add_per_stage(CLI::App& command, const std::string& when = "");
  bool is_set() const;
  /// The costs and sizes of each stage and slice of a plan or a shape.
  op_costs costs_of(const division& of) const;
  value_sizes sizes_of(const division& of) const;
};

/// The result of a search on one placement.
struct placed_search {
  std::string placement;  // "looped", "waves" or "bidirectional"
  search_result result;
  /// The placement of the best built-in schedule, which `result` names.
  std::string builtin_placement{};
};

/// The row of a search in the list of schedules.
constexpr std::string_view search_name = "search";
constexpr std::string_view search_summary =
  "the shortest found for --costs, --sizes and --memory-limit";
constexpr std::string_view search_accepts = "any P, V and m";

/// The problem of a job, without its placement. Throws `error`, with the names
/// of the flags; warns of costs of stages that the job lacks.
search_problem problem_of(const schedule_shape& shape,
                          const search_inputs& inputs);

/// Searches on the placements "looped", "waves", "bidirectional" (two copies of
/// each stage, as in dualpipe) or, with "best", on all that the shape supports.
/// Returns the best result, with the best built-in schedule on any of them.
/// Throws as `search` does, and for a placement that the shape does not
/// support.
placed_search search_placements(const search_problem& problem,
                                const schedule_shape& shape,
                                const std::string& placement = "best");

/// The schedule that --schedule names: a file, a built-in one or "search";
/// empty: the default for the shape. Sizes that are 0 are the schedule's usual
/// ones. Throws as these do.
schedule named_schedule(const std::string& name, const schedule_shape& shape,
                        const search_inputs& inputs,
                        std::int32_t data_parallel);

/// The default of `plan`, `simulate` and `train`. Sizes that are 0 are those of
/// the schedule (`with_usual_sizes`).
inline constexpr auto usual_schedule = "1f1b";
inline constexpr auto usual_schedule_of_slices = "seq_1f1b";
inline constexpr auto usual_schedules = "(1f1b; with --slices, seq_1f1b)";
inline constexpr schedule_shape usual_shape{
  .ranks = 2, .stages_per_rank = 0, .microbatches = 8, .slices = 0};

/// The name, or the default one for the shape.
std::string named_or_usual(const std::string& name,
                           const schedule_shape& shape);

/// The words of --order.
choices<lane_order> lane_orders();

/// The flags that name a schedule and its shape, shared by `plan` and
/// `simulate`.
struct schedule_options {
  std::string schedule;  // empty: the default
  schedule_shape shape = usual_shape;
  std::int32_t data_parallel = 1;
  bool ties_embeddings = false;
  search_inputs searching{};

  void add_to(CLI::App& command);
  /// The built-in schedule, the file's, or the result of a search. Throws
  /// `error`, `invalid_argument` if a flag contradicts the file. Warns of flags
  /// without effect.
  troupe::schedule find() const;
  /// The stages of a schedule that hold tied parameters.
  std::vector<std::int32_t> tied(const troupe::schedule& lanes) const;
  /// Warns of every flag that is set but overridden by `what`.
  void warn_beside(const std::string& what) const;

 private:
  CLI::App* command_ = nullptr;
};

/// Declares --ranks, --stages-per-rank, --microbatches and --slices.
void add_shape_flags(CLI::App& command, schedule_shape& shape);

/// The flags that a schedule's file determines; --config skips them.
std::vector<std::string> sizes_in_file();

/// Throws `invalid_argument` if a flag that is set contradicts the schedule's
/// file.
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

/// The unit in which bytes are printed: MiB, or bytes if the largest is below
/// one MiB.
class byte_unit {
 public:
  explicit byte_unit(double largest) : mebibytes_{largest >= mebibyte} {}

  std::string_view name() const { return mebibytes_ ? "MiB" : "bytes"; }
  std::string figure(double bytes) const {
    return mebibytes_ ? fmt::format("{:.1f}", bytes / mebibyte)
                      : fmt::format("{:.6g}", bytes);
  }
  std::string text(double bytes) const {
    return fmt::format("{} {}", figure(bytes), name());
  }

 private:
  static constexpr double mebibyte = 1 << 20;

  bool mebibytes_;
};

/// Writes a file, whole or not at all; writes to standard output if the path is
/// empty.
void write_output(const std::string& path, const std::string& text);

/// The flags of `train`, `plan` and `simulate` that offload activations.
struct offload_flags {
  /// Declares the flags in the current group.
  void add_to(CLI::App& command);
  bool is_set() const { return !what_.empty(); }
  /// Throws as `load_offload` does; warns of flags without effect.
  offload_options options() const;
  /// The plan with offloading; unchanged if the flags don't ask for it.
  plan apply(plan before) const;

 private:
  std::string what_;  // a fraction, entries or a file; empty: none
  std::int32_t ahead_ = offload_options{}.ahead;
  std::int32_t least_stay_ = offload_options{}.least_stay;
};

}  // namespace troupe::cli
