#include "troupe/monitors/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "troupe/engine/plan/draw.hpp"
#include "troupe/monitors/step_collector.hpp"
#include "troupe/schedules/atomic_file.hpp"

namespace troupe {

namespace {

constexpr double ms = 1e-6;  // of a nanosecond

bool takes_time(plan_op_kind kind) {
  return is_compute(kind) || kind == plan_op_kind::gradient_norm
         || kind == plan_op_kind::update;
}

std::int64_t first_begin(const std::vector<ops_event>& ops) {
  auto first = std::numeric_limits<std::int64_t>::max();
  for (const auto& rank : ops)
    for (const auto& op : rank.ops)
      first = std::min(first, op.begin);
  return first;
}

/// Adds steps to one picture, times counted from the first op of all.
class timeline_builder {
 public:
  timeline_builder(const plan& of, std::int64_t origin)
    : plan_(of), origin_(origin) {
    made_.unit = "ms";
  }

  void add(const std::vector<ops_event>& step) {
    std::int32_t replicas = 1;
    for (const auto& rank : step)
      replicas = std::max(replicas, rank.source.data_rank + 1);
    made_.ranks = replicas * plan_.ranks();
    for (std::int32_t d = 0; d < replicas; ++d)
      add_replica(step, d);
  }

  timeline take() { return std::move(made_); }

 private:
  void add_replica(const std::vector<ops_event>& step, std::int32_t data_rank) {
    std::vector<std::size_t> span_of(plan_.ops.size(), missing);
    for (const auto& rank : step) {
      if (rank.source.data_rank != data_rank)
        continue;
      for (const auto& op : rank.ops)
        add_span(op, data_rank * plan_.ranks() + rank.source.rank, span_of);
    }
    for (const auto& message : plan_.messages) {
      const auto from = span_of[message.producer];
      const auto to = span_of[message.consumer];
      const auto channel = static_cast<std::size_t>(message.channel);
      if (from != missing && to != missing)
        made_.flows.push_back({from, to, plan_.channels[channel].backward});
    }
  }

  void add_span(const op_record& op, std::int32_t row,
                std::vector<std::size_t>& span_of) {
    const auto& what = plan_.ops[op.op];
    if (!takes_time(what.kind))
      return;
    span_of[op.op] = made_.spans.size();
    made_.spans.push_back({row, what.kind, what.stage, what.microbatch,
                           static_cast<double>(op.begin - origin_) * ms,
                           static_cast<double>(op.end - origin_) * ms});
  }

  static constexpr auto missing = std::numeric_limits<std::size_t>::max();

  const plan& plan_;
  std::int64_t origin_;
  timeline made_;
};

struct timeline_state {
  std::shared_ptr<const plan> of;
  timeline_files files;
  step_collector collector = {};
  std::deque<std::vector<ops_event>> steps = {};

  void see(const event& what) {
    const auto* ops = collector.add(what);
    if (!ops || ops->empty())
      return;
    steps.push_back(*ops);
    if (steps.size() > (files.trace.empty() ? 1 : files.trace_steps))
      steps.pop_front();
  }

  void finish() {
    if (steps.empty())
      return;
    if (!files.svg.empty())
      write_file_atomically(files.svg, draw_svg(last_step()));
    if (!files.trace.empty())
      write_file_atomically(files.trace, draw_trace(all_steps()));
  }

  timeline last_step() const {
    auto made = measured_timeline(*of, steps.back());
    made.title = fmt::format("{}: step {}, measured", of->schedule_name,
                             steps.back().front().source.step);
    return made;
  }

  timeline all_steps() const {
    timeline_builder builder(*of, first_begin(steps.front()));
    for (const auto& step : steps)
      builder.add(step);
    auto made = builder.take();
    made.title = fmt::format("{}, measured", of->schedule_name);
    return made;
  }
};

}  // namespace

timeline measured_timeline(const plan& of, const std::vector<ops_event>& ops) {
  timeline_builder builder(of, first_begin(ops));
  builder.add(ops);
  return builder.take();
}

monitor timeline_monitor(std::shared_ptr<const plan> of,
                         const timeline_files& files) {
  auto state =
    std::make_shared<timeline_state>(timeline_state{std::move(of), files});
  monitor made;
  made.name = "timeline";
  made.wants.ops = true;
  made.wants.warnings = false;
  made.see = [state](const event& what) { state->see(what); };
  made.finish = [state] { state->finish(); };
  return made;
}

}  // namespace troupe
