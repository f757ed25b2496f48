#include "troupe/engine/plan/search/search.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/plan/search/search_steps.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

void check(const search_problem& problem) {
  if (!problem.costs.of_op.empty())
    fail(error_code::invalid_argument,
         "a search needs costs of stages and kinds of ops; omit those of "
         "single ops");
  if (problem.effort < search_problem::automatic)
    fail(error_code::invalid_argument,
         "the effort of a search is {} schedules; use 0 or more, or "
         "search_problem::automatic",
         problem.effort);
  if (!(problem.memory_limit >= 0))
    fail(error_code::invalid_argument,
         "the memory limit is {} bytes; use 0 (none) or more",
         problem.memory_limit);
  if (problem.memory_limit > 0 && !problem.sizes)
    fail(error_code::invalid_argument,
         "a memory limit requires sizes of stages' values");
}

// The catalogue's schedules on the placement.
std::vector<schedule> builtin_candidates(const search_problem& problem) {
  std::vector<schedule> all;
  for (const auto& row : builtin_schedules()) {
    try {
      auto lanes =
        make_schedule(row.name, {.ranks = problem.placement.ranks,
                                 .stages_per_rank = problem.placement.stages()
                                                    / problem.placement.ranks,
                                 .microbatches = problem.microbatches,
                                 .slices = problem.slices});
      if (lanes.placement == problem.placement && is_training(lanes)
          && lanes.update == update_rule{})
        all.push_back(std::move(lanes));
    } catch (const error&) {  // this schedule does not take the shape
    }
  }
  return all;
}

std::int32_t effort_of(const search_problem& problem) {
  if (problem.effort != search_problem::automatic)
    return problem.effort;
  constexpr double usual = 3000, slots_then = 8 * 2 * 32;
  const auto slots = static_cast<double>(problem.placement.stages())
                     * problem.microbatches * problem.slices;
  return static_cast<std::int32_t>(usual * std::min(1.0, slots_then / slots));
}

class searcher {
 public:
  explicit searcher(const search_problem& problem) : problem_{problem} {}

  search_result run() {
    for (auto& lanes : builtin_candidates(problem_))
      start_from_builtin(std::move(lanes));
    for (auto& rules : search_rules(problem_))
      if (!is_stopped(problem_))
        start_from(list_schedule(problem_, rules));
    if (starts_.empty())
      refuse();
    improve();
    return result();
  }

 private:
  [[noreturn]] void refuse() const {
    if (least_bytes_ == none_held)
      fail(error_code::invalid_argument,
           "no built-in schedule can start a search on this placement for {} "
           "microbatches in {} slices",
           problem_.microbatches, problem_.slices);
    fail(error_code::invalid_argument,
         "no schedule was found that holds at most {:.6g} bytes on every rank; "
         "the least found holds {:.6g}",
         problem_.memory_limit, least_bytes_);
  }

  // Keeps the best few: a trial of a large job takes much memory.
  void keep(trial found) {
    starts_.push_back(std::move(found));
    std::ranges::stable_sort(starts_, better);
    if (starts_.size() > most_starts)
      starts_.pop_back();
  }

  void start_from(std::optional<schedule> lanes) {
    if (!lanes)
      return;
    if (auto found = try_lanes(problem_, std::move(*lanes))) {
      least_bytes_ = std::min(least_bytes_, found->bytes);
      if (within_limit(problem_, *found))
        keep(std::move(*found));
      else
        start_from_less(*found);
    }
  }

  // The order of a schedule beyond the memory limit, with as many activations
  // as the limit allows.
  void start_from_less(const trial& beyond) {
    const auto most = std::ranges::max(beyond.times.in_flight);
    for (auto limit = most - 1; limit > 0 && !is_stopped(problem_);
         limit -= std::max(1, limit / 8)) {
      auto lanes =
        rescheduled(problem_, beyond, static_cast<double>(limit) / most,
                    [] { return 0.0; });
      auto found =
        lanes ? try_lanes(problem_, std::move(*lanes)) : std::nullopt;
      if (!found)
        continue;
      least_bytes_ = std::min(least_bytes_, found->bytes);
      if (!within_limit(problem_, *found))
        continue;
      keep(std::move(*found));
      return;
    }
  }

  void start_from_builtin(schedule lanes) {
    end_pairs(lanes);
    const bool split = problem_.split_backward;
    if (!split && has_split_backward(lanes))
      return;
    note_builtin(lanes);
    start_from(lanes);
    if (split && !has_split_backward(lanes)) {
      split_backwards(lanes);
      start_from(std::move(lanes));
    }
  }

  void note_builtin(const schedule& lanes) {
    const auto found = try_lanes(problem_, lanes);
    if (!found || !within_limit(problem_, *found)
        || (!builtin_.empty() && found->period >= builtin_period_))
      return;
    builtin_ = lanes.name;
    builtin_period_ = found->period;
  }

  // Half of the effort goes into patterns of all microbatches, of the best
  // starts; the rest into single ops.
  void improve() {
    const auto effort = effort_of(problem_);
    const auto share = effort / 2 / static_cast<std::int32_t>(starts_.size());
    for (std::size_t i = 0; i < starts_.size(); ++i)
      starts_[i] = annealed_pattern(problem_, starts_[i], share,
                                    problem_.seed * most_starts + i);
    const auto& best = *std::ranges::min_element(starts_, better);
    best_ = annealed_lanes(problem_, best, effort / 2, problem_.seed);
  }

  search_result result() {
    best_.lanes.name = "search";
    return {.found = std::move(best_.lanes),
            .period = best_.period,
            .makespan = best_.makespan,
            .lower_bound = period_bound(problem_),
            .peak_bytes = best_.bytes,
            .builtin = builtin_,
            .builtin_period = builtin_period_};
  }

  static constexpr std::size_t most_starts = 4;
  static constexpr auto none_held = std::numeric_limits<double>::infinity();

  const search_problem& problem_;
  std::vector<trial> starts_;  // the best so far
  trial best_;
  std::string builtin_;
  double builtin_period_ = 0;
  double least_bytes_ = none_held;
};

}  // namespace

search_result search(const search_problem& problem) {
  check(problem);
  return searcher{problem}.run();
}

}  // namespace troupe
