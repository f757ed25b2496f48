#include "troupe/actors/messages.hpp"

#include <algorithm>

namespace troupe {

ops_event to_event(const event_source& step, const rank_done& report) {
  ops_event event{step, {}};
  event.source.data_rank = report.data_rank;
  event.source.rank = report.rank;
  for (const auto& stage : report.stages)
    event.ops.insert(event.ops.end(), stage.ops.begin(), stage.ops.end());
  std::ranges::sort(event.ops, {}, &op_record::sequence);
  return event;
}

}  // namespace troupe
