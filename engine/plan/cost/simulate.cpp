#include "troupe/engine/plan/cost/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "troupe/engine/plan/cost/step_clock.hpp"

namespace troupe {

namespace {

// Whether all ranks advance by the same time from one step to the next: then
// they always will, as a step only adds costs and takes maxima.
bool is_periodic(const std::vector<double>& begins,
                 const std::vector<double>& ends) {
  const auto shift = ends[0] - begins[0];
  for (std::size_t rank = 0; rank < begins.size(); ++rank)
    if (std::abs(ends[rank] - begins[rank] - shift) > 1e-9 * ends[rank])
      return false;
  return true;
}

// Whether the critical path begins and ends on one rank: then it recurs in
// every step, so no step can begin sooner than a makespan after the last.
bool returns_to_its_rank(const plan& plan,
                         const std::vector<std::uint32_t>& path) {
  return !path.empty()
         && plan.rank_of(path.front()) == plan.rank_of(path.back());
}

// The slowest rank's: in the long run it is every rank's.
double most_advance(const std::vector<double>& begins,
                    const std::vector<double>& ends) {
  double most = 0;
  for (std::size_t rank = 0; rank < begins.size(); ++rank)
    most = std::max(most, ends[rank] - begins[rank]);
  return most;
}

// `run_step` of a clock goes on from the ranks' ends in the first step.
template <class Clock>
double find_period(Clock& clock, std::vector<double> ends) {
  constexpr int most_steps = 32;
  const auto first = ends;
  for (int step = 1;; ++step) {
    const auto begins = ends;
    clock.run_step(ends);
    if (is_periodic(begins, ends))
      return ends[0] - begins[0];
    if (step == most_steps)
      return most_advance(first, ends) / step;
  }
}

// What a rank does in the step.
struct lane_use {
  double busy = 0;  // computing; an atomic pair counts once
  double first = std::numeric_limits<double>::infinity();  // start of an op
  double last = 0;                                         // end of an op
};

lane_use use_of(const plan& plan, const simulation& times, std::int32_t rank,
                bool atomic_pairs) {
  lane_use use;
  for (const auto op : plan.ops_of(rank)) {
    const auto& what = plan.ops[op];
    if (what.stream == stream_kind::compute
        && !(atomic_pairs && what.overlaps_next))
      use.busy += times.end[op] - times.start[op];
    if (is_compute(what.kind)) {
      use.first = std::min(use.first, times.start[op]);
      use.last = std::max(use.last, times.end[op]);
    }
  }
  return use;
}

double idle_part(double busy, double whole) {
  return whole > 0 ? 1 - busy / whole : 0;
}

void measure_idle(const plan& plan, bool atomic_pairs, simulation& result) {
  double busy = 0;
  double span = 0;
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
    const auto use = use_of(plan, result, rank, atomic_pairs);
    result.idle.push_back(idle_part(use.busy, result.makespan));
    busy += use.busy;
    span += std::max(0.0, use.last - use.first);
  }
  result.bubble = idle_part(busy, result.makespan * plan.ranks());
  result.span_bubble = idle_part(busy, span);
}

std::int32_t channel_of(const plan& plan, std::uint32_t op) {
  const auto message = plan.ops[op].message;
  return message == none ? none : plan.messages[slot(message)].channel;
}

class path_finder {
 public:
  /// `before`: by op, the one that started before it on its stream of the rank;
  /// empty: in the lane's order.
  path_finder(const plan& plan, const simulation& times,
              const std::vector<std::uint32_t>& before = {})
    : plan_{plan}, times_{times}, before_{before} {}

  std::vector<std::uint32_t> run() const {
    std::vector<std::uint32_t> path;
    if (plan_.ops.empty())
      return path;
    auto op = last_op();
    for (; op != nothing; op = cause_of(op))
      if (!is_transfer(plan_.ops[op].kind))
        path.push_back(op);
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  static constexpr auto nothing = static_cast<std::uint32_t>(none);

  std::uint32_t last_op() const {
    return static_cast<std::uint32_t>(
      std::max_element(times_.end.begin(), times_.end.end())
      - times_.end.begin());
  }

  // An op that ended when this one began: an input, or its predecessor on the
  // stream.
  std::uint32_t cause_of(std::uint32_t op) const {
    const auto start = times_.start[op];
    for (const auto input : plan_.dependencies_of(plan_.ops[op]))
      if (times_.end[input] == start)
        return input;
    if (!before_.empty())
      return before_[op] != nothing && times_.end[before_[op]] == start
               ? before_[op]
               : nothing;
    const auto first = plan_.first_op[slot(plan_.rank_of(op))];
    for (auto previous = op; previous-- > first;)
      if (share_a_queue(previous, op) && !(times_.end[previous] > start))
        return times_.end[previous] == start ? previous : nothing;
    return nothing;
  }

  bool share_a_queue(std::uint32_t a, std::uint32_t b) const {
    return plan_.ops[a].stream == plan_.ops[b].stream
           && channel_of(plan_, a) == channel_of(plan_, b);
  }

  const plan& plan_;
  const simulation& times_;
  const std::vector<std::uint32_t>& before_;
};

using op_order = std::vector<std::uint32_t>;

std::int32_t peak_of(const plan& plan, const auto& order) {
  std::int32_t held = 0;
  std::int32_t peak = 0;
  for (const auto op : order) {
    held += activations_added(plan.ops[op].kind);
    peak = std::max(peak, held);
  }
  return peak;
}

op_order predecessors(const plan& plan, const std::vector<op_order>& started) {
  constexpr auto nothing = static_cast<std::uint32_t>(none);
  op_order before(plan.ops.size(), nothing);
  for (const auto& order : started) {
    // By stream, and of sends by channel.
    std::map<std::pair<stream_kind, std::int32_t>, std::uint32_t> last;
    for (const auto op : order) {
      const auto queue = std::pair(plan.ops[op].stream, channel_of(plan, op));
      before[op] =
        std::exchange(last.try_emplace(queue, nothing).first->second, op);
    }
  }
  return before;
}

simulation simulate_executors(const plan& plan, const op_costs& costs,
                              lane_order order) {
  executor_clock clock{plan, costs, order};
  std::vector<double> ends(slot(plan.ranks()), 0);
  clock.run_step(ends);
  simulation result{.start = clock.start, .end = clock.end};
  for (const auto& started : clock.started)
    result.in_flight.push_back(peak_of(plan, started));
  result.makespan = *std::max_element(ends.begin(), ends.end());
  const auto before = predecessors(plan, clock.started);
  result.critical_path = path_finder{plan, result, before}.run();
  result.period = find_period(clock, std::move(ends));
  measure_idle(plan, costs.atomic_pairs, result);
  return result;
}

}  // namespace

simulation simulate(const plan& plan, const op_costs& costs, lane_order order) {
  if (order != lane_order::strict)
    return simulate_executors(plan, costs, order);
  step_clock clocks{plan, costs};
  std::vector<double> ends(slot(plan.ranks()), 0);
  clocks.run_step(ends);
  simulation result{.start = std::move(clocks.start),
                    .end = std::move(clocks.end)};
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank)
    result.in_flight.push_back(peak_of(plan, plan.ops_of(rank)));
  result.makespan = *std::max_element(ends.begin(), ends.end());
  result.critical_path = path_finder{plan, result}.run();
  if (returns_to_its_rank(plan, result.critical_path)) {
    result.period = result.makespan;
  } else {
    step_clock next_steps{plan, costs};
    result.period = find_period(next_steps, std::move(ends));
  }
  measure_idle(plan, costs.atomic_pairs, result);
  return result;
}

std::vector<double> step_ends(
  const plan& plan, const std::function<op_costs(std::int32_t step)>& costs_of,
  const step_series& how) {
  std::vector<double> ends;
  std::vector<double> free_from(slot(plan.ranks()), 0);
  for (std::int32_t step = 0; step < how.steps; ++step) {
    const auto costs = costs_of(step);
    if (how.order == lane_order::strict)
      step_clock{plan, costs}.run_step(free_from);
    else
      executor_clock{plan, costs, how.order}.run_step(free_from);
    ends.push_back(*std::max_element(free_from.begin(), free_from.end()));
    if (how.barrier)
      std::fill(free_from.begin(), free_from.end(), ends.back());
  }
  return ends;
}

}  // namespace troupe
