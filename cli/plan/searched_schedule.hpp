#pragma once

#include <string>
#include <string_view>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/plan/search/search.hpp"

namespace troupe::cli {

/// What a search goes by besides the shape of the job.
struct search_inputs {
  std::string costs;        // entries or a file; empty: the usual ones
  std::string sizes;        // the same; empty: memory isn't looked at
  double memory_limit = 0;  // bytes of a rank, by `sizes`; 0: none

  static constexpr auto by_name = "with --schedule search: ";

  /// --costs, --sizes and --memory-limit; `when` begins their help.
  void add_to(CLI::App& command, const std::string& when = by_name);
  void add_memory_limit(CLI::App& command, const std::string& when = by_name);
  bool given() const;
};

/// A search on one placement.
struct placed_search {
  std::string placement;  // "looped", "waves" or "bidirectional"
  search_result result;
  /// That of the best schedule of the catalogue, which `result` names.
  std::string known_placement{};
};

/// A row of the list of schedules.
constexpr std::string_view search_name = "search";
constexpr std::string_view search_summary =
  "the shortest found for --costs, --sizes and --memory-limit";
constexpr std::string_view search_accepts = "any P, V, M";

/// The problem of a job, without its placement. Throws `error`, with the names
/// of the flags; warns of costs of stages that the job lacks.
search_problem problem_of(const schedule_shape& shape,
                          const search_inputs& inputs);

/// Searches on the placements "looped", "waves", "bidirectional" (two copies of
/// each stage, as dualpipe has) or, with "best", on all that the shape takes;
/// the best result, with the best schedule of the catalogue on any of them.
/// Throws as `search`, and for a placement that the shape does not take.
placed_search search_placements(const search_problem& problem,
                                const schedule_shape& shape,
                                const std::string& placement = "best");

/// What --schedule names: a file, a schedule of the catalogue or "search";
/// empty: the usual one of the shape. Throws as these do.
schedule named_schedule(const std::string& name, const schedule_shape& shape,
                        const search_inputs& inputs,
                        std::int32_t data_parallel);

/// What `--schedule search` names. Throws as the functions above.
schedule searched_schedule(const schedule_shape& shape,
                           const search_inputs& inputs,
                           std::int32_t data_parallel);

}  // namespace troupe::cli
