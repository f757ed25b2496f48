#include "troupe/actors/job/meeting_messages.hpp"

#include <algorithm>
#include <utility>

#include "troupe/engine/transport/wire.hpp"

namespace troupe {

void add(const run_requests& more, run_requests& all) {
  if (!all.ends)
    all.ends = more.ends;
  if (more.ends && more.within > 0)
    all.within =
      all.within > 0 ? std::min(all.within, more.within) : more.within;
  all.saves |= more.saves;
}

meeting_decision decide(const std::vector<frame>& all) {
  meeting_decision decision;
  std::vector<meeting_state> states;
  for (const auto& each : all)
    states.push_back(from_wire<meeting_state>(each.head));
  decision.changes =
    std::ranges::max_element(states, {}, [](const meeting_state& each) {
      return std::pair(each.changes.switches + each.changes.rehosted,
                       !each.held.empty());
    })->changes;
  for (auto& each : states) {
    decision.rehosts |= each.changes.hosting != decision.changes.hosting;
    decision.has_copied |= each.has_copied;
    decision.evaluated = std::max(decision.evaluated, each.evaluated);
    add(each.requests, decision.requests);
    decision.held.push_back(std::move(each.held));
    decision.processes.push_back(std::move(each.process));
  }
  return decision;
}

}  // namespace troupe
