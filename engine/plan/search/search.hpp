#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"

namespace troupe {

/// The job for which `search` looks for a schedule. A live job gives its own
/// placement and slices, and the costs that it has measured.
struct search_problem {
  troupe::placement placement{};
  std::int32_t microbatches = 1;
  std::int32_t slices = 1;
  op_costs costs{};  // of kinds and stages, for a slice; not of single ops
  compile_options compiling{};
  /// No rank begins a step before all have ended the one before: then the
  /// period is the makespan.
  bool barrier = false;
  std::optional<value_sizes> sizes{};
  double memory_limit = 0;  // bytes of a rank, by `sizes`; 0: none
  /// Whether backwards may be split into I and W. Full ones are tried, too.
  bool split_backward = true;
  std::uint64_t seed = 1;
  /// Schedules that are simulated beside the catalogue's and about a hundred
  /// list schedules. `automatic`: 3000 of 8 ranks, 2 stages per rank and 32
  /// microbatches, which take 2 to 4 s, and fewer of larger jobs, whose
  /// simulation takes longer.
  static constexpr std::int32_t automatic = -1;
  std::int32_t effort = automatic;
  /// Asked before each trial; true ends the search with the best so far. Any
  /// answer but false leaves the result to chance.
  std::function<bool()> stopped{};
};

/// The schedule found, and how good it is; times are in the unit of the costs.
struct search_result {
  schedule found{};
  double period = 0;  // as `simulation::period`
  double makespan = 0;
  double lower_bound = 0;  // `period_bound`
  double peak_bytes = 0;   // of the rank that holds most; 0 without sizes
  /// The catalogue's best schedule on this placement, within the limit; no name
  /// if none fits.
  std::string builtin{};
  double builtin_period = 0;
};

/// Looks for the schedule of the shortest period, among equal ones of the
/// shortest makespan, as zero-bubble pipelines are scheduled from profiles (Qi
/// et al., 2023). It starts from the catalogue's schedules on this placement
/// and from list schedules by rules, and improves them by moves within lanes
/// (simulated annealing): what holds a rank up on the critical path is moved,
/// or any op. Each is simulated. Slices, and several copies of the stages, have
/// no rules: there single ops of the catalogue's schedules are moved. The
/// result is never worse than the catalogue's best under the same limit; every
/// stage takes its microbatches in ascending order. Results depend on the
/// problem alone, its seed included: no clock.
///
/// Throws `error` (invalid_argument) for costs of single ops, a limit without
/// sizes, a limit that no schedule found keeps, with the least that one needs,
/// and copies for which the catalogue has no schedule.
search_result search(const search_problem& problem);

/// No schedule on the placement has a shorter period: the longest of
/// - what a rank computes in a step, or on average the ranks that share
///   copies of stages;
/// - how long a step's messages occupy a channel of a chain;
/// - in a chain, the time from a rank's first forward of its first stage s to
///   its update: the forwards from s to a later stage k, with messages; the
///   forwards and gradients of all microbatches of the stages from k on that
///   share its rank; the gradients from k back to s; what is left of s.
double period_bound(const search_problem& problem);

}  // namespace troupe
