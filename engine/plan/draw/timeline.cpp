#include "troupe/engine/plan/draw/timeline.hpp"

#include <algorithm>
#include <array>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

double timeline::duration() const {
  double last = 0;
  for (const auto& each : spans)
    last = std::max(last, each.end);
  return last;
}

timeline to_timeline(const plan& plan, const simulation& times) {
  timeline result{.title = plan.schedule_name, .ranks = plan.ranks()};
  std::vector<std::size_t> span_of(plan.ops.size(), 0);
  for (std::int32_t rank = 0; rank < plan.ranks(); ++rank)
    for (const auto op : plan.ops_of(rank)) {
      const auto& what = plan.ops[op];
      const auto takes_time = times.end[op] > times.start[op];
      if (is_transfer(what.kind) || !(is_compute(what.kind) || takes_time))
        continue;
      span_of[op] = result.spans.size();
      result.spans.push_back(
        {.rank = rank,
         .kind = what.kind,
         .stage = what.stage,
         .microbatch = what.microbatch,
         .start = times.start[op],
         .end = times.end[op],
         .host_start = times.start[op],
         .slice = plan.slices > 1 ? what.slice : std::int16_t{none},
         .copy = what.copy,
         .overlaps_next = what.overlaps_next});
    }
  for (const auto& each : plan.messages)
    result.flows.push_back(
      {.from = span_of[each.producer],
       .to = span_of[each.consumer],
       .backward = plan.channels[slot(each.channel)].backward});
  return result;
}

std::string to_text(const timeline_span& span) {
  const bool whole = span.slice == none;
  return to_text(plan{.slices = whole ? 1 : 2},
                 plan_op{.kind = span.kind,
                         .copy = span.copy,
                         .slice = whole ? std::int16_t{0} : span.slice,
                         .stage = span.stage,
                         .microbatch = span.microbatch});
}

const char* to_text(wait_kind kind) {
  constexpr std::array texts{"bubble", "waits for transport",
                             "waits for a credit", "waits for a core"};
  return texts[slot(kind)];
}

}  // namespace troupe
