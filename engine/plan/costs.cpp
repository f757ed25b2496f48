#include "troupe/engine/plan/costs.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "troupe/engine/plan/entries.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

constexpr std::string_view keys =
  "f, b, i, w, unshard, reshard, reduce, sum_tied, norm, update and message";

op_costs::entry to_entry(const keyed_number& read) {
  const auto* found =
    std::ranges::find(op_actions, read.key, &op_traits::cost_key);
  if (found == op_actions.end() || found->cost_key.empty()
      || (read.stage && found->kind == plan_op_kind::send))
    refuse_entry(read.text, "the key is unknown", "costs", keys);
  return {read.text, found->kind, read.stage.value_or(none), read.value};
}

// Halves of a full backward, or their sum, that no entry gives, from those that
// one does. `stage`: of a row; none: of all stages.
void complete_backwards(op_costs::by_kind& row, std::int32_t stage,
                        const std::vector<op_costs::entry>& entries) {
  const auto given = [&](plan_op_kind kind) {
    return std::ranges::any_of(entries, [&](const op_costs::entry& each) {
      return each.kind == kind && each.stage == stage;
    });
  };
  using enum plan_op_kind;
  const auto cost = [&](plan_op_kind kind) -> double& {
    return row[static_cast<std::size_t>(kind)];
  };
  const bool halves = given(input_backward) || given(weight_backward);
  if (given(backward) && !halves)
    cost(input_backward) = cost(weight_backward) = cost(backward) / 2;
  if (halves && !given(backward))
    cost(backward) = cost(input_backward) + cost(weight_backward);
}

// A stage's row starts from the figures for all stages, which may come later in
// the text: so single stages are handled last.
op_costs make_costs(std::vector<op_costs::entry> entries) {
  op_costs costs;
  for (const auto& [text, kind, stage, value] : entries)
    if (kind == plan_op_kind::send)
      costs.message = value;
    else if (stage == none)
      costs.of_kind[static_cast<std::size_t>(kind)] = value;
  complete_backwards(costs.of_kind, none, entries);
  for (const auto& [text, kind, stage, value] : entries) {
    if (stage == none)
      continue;
    const auto row = static_cast<std::size_t>(stage);
    if (costs.of_stage.size() <= row)
      costs.of_stage.resize(row + 1, costs.of_kind);
    costs.of_stage[row][static_cast<std::size_t>(kind)] = value;
  }
  for (std::size_t row = 0; row < costs.of_stage.size(); ++row)
    complete_backwards(costs.of_stage[row], static_cast<std::int32_t>(row),
                       entries);
  costs.entries = std::move(entries);
  return costs;
}

}  // namespace

op_costs parse_costs(std::string_view text) {
  std::vector<op_costs::entry> entries;
  for (const auto& each : parse_entries(text, "costs", keys))
    entries.push_back(to_entry(each));
  return make_costs(std::move(entries));
}

op_costs load_costs(const std::string& path_or_text) {
  return load_entries(path_or_text, "costs", parse_costs);
}

void require_costs_of(const plan& plan, const op_costs& costs) {
  if (!costs.of_op.empty() && costs.of_op.size() != plan.ops.size())
    fail(error_code::invalid_argument,
         "{} costs are given for a plan of {} ops; measure the plan that you "
         "simulate",
         costs.of_op.size(), plan.ops.size());
}

std::vector<double> parse_slow_ranks(std::string_view text) {
  constexpr std::string_view what = "slow ranks", known = "rank.N";
  std::vector<double> factors;
  for (const auto& each : parse_entries(text, what, known)) {
    if (each.key != "rank" || !each.stage)
      refuse_entry(each.text, "the key is unknown", what, known);
    const auto rank = static_cast<std::size_t>(*each.stage);
    factors.resize(std::max(factors.size(), rank + 1), 1);
    factors[rank] = each.value;
  }
  return factors;
}

op_costs disturbed(op_costs costs, const plan& plan, const disturbance& how) {
  if (std::ssize(how.of_rank) > plan.ranks())
    fail(error_code::invalid_argument,
         "rank {} is to be slow, and {} has {} ranks", how.of_rank.size() - 1,
         plan.schedule_name, plan.ranks());
  std::mt19937_64 random(how.seed);
  // In (0, 1], as the standard's distributions differ between libraries.
  const auto uniform = [&] {
    return (static_cast<double>(random() >> 11) + 1) * 0x1p-53;
  };
  std::vector<double> all;
  all.reserve(plan.ops.size());
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto slower = r < how.of_rank.size() ? how.of_rank[r] : 1;
    for (auto op = plan.first_op[r]; op < plan.first_op[r + 1]; ++op) {
      auto cost = costs.cost_of(op, plan.ops[op]) * slower;
      if (how.jitter > 0)  // Box and Muller's transform
        cost *= std::exp(how.jitter * std::sqrt(-2 * std::log(uniform()))
                         * std::cos(2 * std::numbers::pi * uniform()));
      all.push_back(cost);
    }
  }
  costs.of_op = std::move(all);
  return costs;
}

std::vector<std::string> without_effect(const op_costs& costs,
                                        const plan& plan) {
  std::vector<std::string> unused;
  for (const auto& entry : costs.entries)
    if (std::ranges::none_of(plan.ops, [&](const plan_op& op) {
          return op.kind == entry.kind
                 && (entry.stage == none || op.stage == entry.stage);
        }))
      unused.push_back(entry.text);
  return unused;
}

}  // namespace troupe
