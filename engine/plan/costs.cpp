#include "troupe/engine/plan/costs.hpp"

#include <algorithm>

#include "troupe/engine/plan/entries.hpp"
#include "troupe/engine/plan/op_traits.hpp"

namespace troupe {

namespace {

constexpr std::string_view keys =
  "f, b, i, w, unshard, reshard, reduce, norm, update and message";

op_costs::entry to_entry(const keyed_number& read) {
  const auto* found =
    std::ranges::find(op_actions, read.key, &op_traits::cost_key);
  if (found == op_actions.end() || found->cost_key.empty()
      || (read.stage && found->kind == plan_op_kind::send))
    refuse_entry(read.text, "the key is unknown", "costs", keys);
  return {read.text, found->kind, read.stage.value_or(none), read.value};
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
  for (const auto& [text, kind, stage, value] : entries) {
    if (stage == none)
      continue;
    const auto row = static_cast<std::size_t>(stage);
    if (costs.of_stage.size() <= row)
      costs.of_stage.resize(row + 1, costs.of_kind);
    costs.of_stage[row][static_cast<std::size_t>(kind)] = value;
  }
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
