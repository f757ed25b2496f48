#include "troupe/engine/plan/search/search_steps.hpp"

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

namespace {

// Limits of activations on a rank: the same on all ranks, or fewer the later
// the rank.
void add_limited(const search_problem& problem, const lane_rules& rules,
                 std::vector<lane_rules>& all) {
  const auto ranks = problem.placement.ranks;
  const auto stages = problem.placement.stages() / ranks;
  const auto most = stages * problem.microbatches;
  for (auto limit = stages; limit < most; limit += std::max(1, limit / 4)) {
    auto limited = rules;
    limited.in_flight_limit = [=](auto) { return limit; };
    all.push_back(limited);
    if (limit > 2 * stages * ranks)
      break;
    limited.in_flight_limit = [=](std::int32_t rank) {
      return std::max(stages, limit - rank);
    };
    all.push_back(std::move(limited));
  }
  all.push_back(rules);
}

}  // namespace

bool better(const trial& a, const trial& b) {
  return std::pair{a.period, a.makespan} < std::pair{b.period, b.makespan};
}

bool is_stopped(const search_problem& problem) {
  return problem.stopped && problem.stopped();
}

std::optional<trial> try_lanes(const search_problem& problem, schedule lanes) {
  trial found;
  try {
    found.step = compile(lanes, problem.compiling);
  } catch (const error& reason) {
    if (reason.code() != error_code::deadlock)
      throw;
    return std::nullopt;
  }
  found.lanes = std::move(lanes);
  found.times = simulate(found.step, problem.costs);
  found.period = problem.barrier ? found.times.makespan : found.times.period;
  found.makespan = found.times.makespan;
  if (problem.sizes)
    found.bytes =
      std::ranges::max(peak_bytes(found.step, found.times, *problem.sizes));
  return found;
}

bool within_limit(const search_problem& problem, const trial& found) {
  return problem.memory_limit == 0 || found.bytes <= problem.memory_limit;
}

bool takes_rules(const search_problem& problem) {
  return problem.slices == 1 && problem.placement.copies() == 1;
}

std::vector<lane_rules> search_rules(const search_problem& problem) {
  std::vector<lane_rules> all;
  if (!takes_rules(problem))
    return all;
  using enum preference;
  const std::vector<std::vector<preference>> orders{
    {weight_backward_last, backward, deep_stage},
    {weight_backward_last, backward, early_microbatch},
    {weight_backward_last, forward, shallow_stage},
    {backward, deep_stage}};
  for (const bool split : {false, true})
    for (const auto& order : orders)
      if (!split || problem.split_backward)
        add_limited(problem, {.prefer = order, .split_backward = split}, all);
  return all;
}

std::optional<schedule> list_schedule(const search_problem& problem,
                                      const lane_rules& rules) {
  auto timed = rules;
  timed.message_between = [&](std::int32_t rank, std::int32_t other) {
    return problem.costs.message_between(rank, other).total();
  };
  timed.duration = [&](const op& what) {
    return problem.costs.cost_of(
      0, {.kind = to_plan_kind(what.kind), .stage = what.stage});
  };
  try {
    return build_by_rules(problem.placement, problem.microbatches, timed);
  } catch (const error& reason) {
    if (reason.code() != error_code::deadlock)
      throw;
    return std::nullopt;
  }
}

namespace {

/// By stage: the most microbatches forwarded and not yet passed back.
std::vector<std::int32_t> most_of_stages(const trial& of) {
  const auto stages = slot(of.lanes.stages());
  std::vector<std::int32_t> held(stages, 0), most(stages, 0);
  for (const auto& what : of.step.ops) {
    const auto stage = slot(what.stage);
    if (what.kind == plan_op_kind::forward)
      most[stage] = std::max(most[stage], ++held[stage]);
    else if (takes_gradient(what.kind))
      --held[stage];
  }
  return most;
}

}  // namespace

std::optional<schedule> rescheduled(const search_problem& problem,
                                    const trial& like, double part,
                                    const std::function<double()>& noise) {
  if (!takes_rules(problem))
    return std::nullopt;
  constexpr std::size_t kinds = 4;
  std::vector<double> starts(slot_count(like.lanes) * kinds);
  const auto start = [&](const op& what) -> double& {
    return starts[op_slot(like.lanes, what) * kinds + slot(what.kind)];
  };
  const auto split = has_split_backward(like.lanes);
  for (std::uint32_t i = 0; i < like.step.ops.size(); ++i)
    if (const auto& what = like.step.ops[i]; is_compute(what.kind)) {
      op each{.stage = what.stage,
              .microbatch = what.microbatch,
              .kind = static_cast<op_kind>(what.kind)};
      if (split && each.kind == op_kind::backward) {
        each.kind = op_kind::weight_backward;
        start(each) = like.times.end[i];
        each.kind = op_kind::input_backward;
      }
      start(each) = like.times.start[i] + noise();
    }
  const auto of_stage = most_of_stages(like);
  const auto limit = [part](const std::vector<std::int32_t>& most) {
    return [&most, part](std::int32_t index) {
      const auto scaled = part * most[slot(index)];
      return std::max(1, static_cast<std::int32_t>(scaled + 1e-9));
    };
  };
  return list_schedule(problem, {.in_flight_limit = limit(like.times.in_flight),
                                 .stage_limit = limit(of_stage),
                                 .start = start,
                                 .prefer = {preference::early_start},
                                 .split_backward = split});
}

namespace {

bool gives_gradient(op_kind kind) {
  return kind == op_kind::backward || kind == op_kind::input_backward;
}

bool may_pass(const op& a, const op& b) {
  if (a.stage != b.stage || a.copy != b.copy)
    return true;
  return a.kind != b.kind
         && !(frees_activation(a.kind) && frees_activation(b.kind))
         && !(gives_gradient(a.kind) && gives_gradient(b.kind))
         && (a.microbatch != b.microbatch || a.slice != b.slice);
}

}  // namespace

bool move_op(lane& ops, std::size_t from, std::size_t to) {
  const auto begin = from;
  while (from < to && may_pass(ops[from], ops[from + 1])) {
    std::swap(ops[from], ops[from + 1]);
    ++from;
  }
  while (from > to && may_pass(ops[from - 1], ops[from])) {
    std::swap(ops[from - 1], ops[from]);
    --from;
  }
  return from != begin;
}

bool split_backward(lane& ops, std::size_t at) {
  if (ops[at].kind != op_kind::backward)
    return false;
  auto weights = ops[at];
  weights.kind = op_kind::weight_backward;
  ops[at].kind = op_kind::input_backward;
  ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, weights);
  return true;
}

bool join_backward(lane& ops, std::size_t at) {
  if (ops[at].kind != op_kind::input_backward)
    return false;
  const auto begin = ops.begin() + static_cast<std::ptrdiff_t>(at);
  const auto weights = std::find_if(begin, ops.end(), [&](const op& each) {
    return each.stage == begin->stage && each.copy == begin->copy
           && frees_activation(each.kind);
  });
  if (weights == ops.end() || weights->microbatch != begin->microbatch
      || weights->slice != begin->slice)
    return false;
  begin->kind = op_kind::backward;
  ops.erase(weights);
  return true;
}

void end_pairs(schedule& lanes) {
  for (auto& ops : lanes.lanes)
    for (auto& each : ops)
      each.overlaps_next = false;
}

void split_backwards(schedule& lanes) {
  end_pairs(lanes);
  for (auto& ops : lanes.lanes)
    for (std::size_t i = 0; i < ops.size(); ++i)
      split_backward(ops, i);
}

bool has_op(const schedule& lanes, op_kind kind) {
  return std::ranges::any_of(lanes.lanes, [&](const lane& ops) {
    return std::ranges::find(ops, kind, &op::kind) != ops.end();
  });
}

bool has_split_backward(const schedule& lanes) {
  return has_op(lanes, op_kind::input_backward);
}

}  // namespace troupe
