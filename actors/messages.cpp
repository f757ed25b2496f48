#include "troupe/actors/messages.hpp"

#include <utility>

namespace troupe {

namespace {

event_source on_rank(event_source step, const rank_done& report) {
  step.data_rank = report.data_rank;
  step.rank = report.rank;
  return step;
}

}  // namespace

ops_event to_event(const event_source& step, const rank_done& report,
                   std::shared_ptr<const plan> plan) {
  return {on_rank(step, report), report.ops, std::move(plan)};
}

messages_event received_in(const event_source& step, const rank_done& report) {
  return {on_rank(step, report), report.messages};
}

}  // namespace troupe
