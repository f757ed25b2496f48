#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "troupe/engine/plan/search/search.hpp"
#include "troupe/schedules/rules.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

// The steps of `search`.

/// A simulated schedule.
struct trial {
  schedule lanes{};
  plan step{};
  simulation times{};
  double period = 0;
  double makespan = 0;
  double bytes = 0;  // most that a rank holds; 0 without sizes
};

/// The shorter period, then the shorter makespan.
bool better(const trial& a, const trial& b);

/// None if the lanes wait for each other.
std::optional<trial> try_lanes(const search_problem& problem, schedule lanes);
bool is_stopped(const search_problem& problem);
bool within_limit(const search_problem& problem, const trial& found);
/// Rules know neither slices nor copies of stages.
bool takes_rules(const search_problem& problem);

/// Rules by which list schedules start the search: memory limits and
/// preferences. None without `takes_rules`.
std::vector<lane_rules> search_rules(const search_problem& problem);
/// None if the rules deadlock.
std::optional<schedule> list_schedule(const search_problem& problem,
                                      const lane_rules& rules);

/// A list schedule whose priorities are the starts of another, each delayed by
/// `noise`, with a part of its activations. None if that deadlocks, and without
/// `takes_rules`.
std::optional<schedule> rescheduled(const search_problem& problem,
                                    const trial& like, double part,
                                    const std::function<double()>& noise);

// Simulated annealing: the best of `tries` schedules and the first one.

/// Moves ops within lanes.
trial annealed_lanes(const search_problem& problem, const trial& first,
                     std::int32_t tries, std::uint64_t seed);
/// Changes the order of all microbatches alike; none without `takes_rules`.
trial annealed_pattern(const search_problem& problem, const trial& first,
                       std::int32_t tries, std::uint64_t seed);

// Changes of a lane that keep it legal: each op after those of its own
// microbatch that it needs, and the ops of a stage that add to gradients, its
// forwards and its I in ascending order. Lanes may still wait for each other
// (`compile`).

/// Moves an op to another place as far as its neighbours let it; false if it
/// stays.
bool move_op(lane& ops, std::size_t from, std::size_t to);

/// Makes a B an I and a W that follows it; false if the op is no B.
bool split_backward(lane& ops, std::size_t at);
/// Makes an I a B, without the W; false if the op is no I, or another W of the
/// stage stands between the two.
bool join_backward(lane& ops, std::size_t at);
/// Ends all overlapped pairs: their ops run one after the other.
void end_pairs(schedule& lanes);
/// Splits all B, which ends overlapped pairs: each holds a whole B.
void split_backwards(schedule& lanes);
/// Whether any op is of this kind.
bool has_op(const schedule& lanes, op_kind kind);
/// Whether any backward is I and W.
bool has_split_backward(const schedule& lanes);

}  // namespace troupe
