#include "troupe/actors/messages.hpp"

#include <algorithm>

namespace troupe {

namespace {

event_source on_rank(event_source step, const rank_done& report) {
  step.data_rank = report.data_rank;
  step.rank = report.rank;
  return step;
}

}  // namespace

ops_event to_event(const event_source& step, const rank_done& report) {
  ops_event event{on_rank(step, report), {}};
  for (const auto& stage : report.stages)
    event.ops.insert(event.ops.end(), stage.ops.begin(), stage.ops.end());
  std::ranges::sort(event.ops, {}, &op_record::sequence);
  return event;
}

messages_event received_in(const event_source& step, const rank_done& report) {
  messages_event event{on_rank(step, report), {}};
  for (const auto& stage : report.stages)
    event.messages.insert(event.messages.end(), stage.messages.begin(),
                          stage.messages.end());
  std::ranges::sort(event.messages, {}, &message_record::taken);
  return event;
}

}  // namespace troupe
