#include "troupe/monitors/timing/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

constexpr double ms_of_ns = 1e-6;
constexpr std::int32_t svg_width = 1280;  // pixels: of common screens

/// A tensor that was not finite.
struct anomaly {
  event_source source;
  bool backward;
  std::string text;
};

/// The first of the op says enough.
std::optional<anomaly> anomaly_of(const tensors_event& op) {
  for (const auto& record : op.tensors)
    if (record.statistics.nans + record.statistics.infs > 0)
      return anomaly{op.source, op.backward || op.source.microbatch == none,
                     fmt::format("{} of {} is not finite", part_text(record),
                                 record.owner->name)};
  return std::nullopt;
}

/// Adds steps to one picture, times counted from the first op of all.
class timeline_builder {
 public:
  timeline_builder(const plan& plan, std::int64_t origin)
    : plan_(plan), origin_(origin) {
    picture_.unit = "ms";
  }

  void add(const std::vector<ops_event>& step) {
    std::int32_t replicas = 1;
    for (const auto& rank : step)
      replicas = std::max(replicas, rank.source.data_rank + 1);
    picture_.ranks = replicas * plan_.ranks();
    picture_.replicas = replicas;
    for (std::int32_t d = 0; d < replicas; ++d)
      add_replica(step, d);
  }

  /// At the end of the op that showed the tensor.
  void add(const anomaly& found) {
    const auto row = found.source.data_rank * plan_.ranks() + found.source.rank;
    for (const auto& span : picture_.spans)
      if (span.rank == row && span.step == found.source.step
          && span.stage == found.source.stage
          && span.microbatch == found.source.microbatch
          && (span.kind != plan_op_kind::forward) == found.backward) {
        picture_.marks.push_back({row, span.end, found.text});
        return;
      }
  }

  timeline take() { return std::move(picture_); }

 private:
  void add_replica(const std::vector<ops_event>& step, std::int32_t data_rank) {
    std::vector<std::size_t> span_of(plan_.ops.size(), missing);
    done_of_plan done(plan_.ops.size(), nullptr);
    std::int64_t number = none;
    for (const auto& rank : step) {
      if (rank.source.data_rank != data_rank)
        continue;
      const auto row = data_rank * plan_.ranks() + rank.source.rank;
      auto busy_until = std::numeric_limits<std::int64_t>::max();
      for (const auto& op : rank.ops) {
        add_waits(busy_until, op, row);
        busy_until =
          &op == rank.ops.data() ? op.end : std::max(busy_until, op.end);
        done[op.op] = &op;
        add_span(op, row, rank.source.step, span_of);
      }
      number = rank.source.step;
    }
    add_transfers(done, data_rank, number);
    for (const auto& message : plan_.messages) {
      const auto source = span_of[message.producer];
      const auto target = span_of[message.consumer];
      const auto channel = static_cast<std::size_t>(message.channel);
      if (source != missing && target != missing)
        picture_.flows.push_back(
          {source, target, plan_.channels[channel].backward});
    }
  }

  /// Until its last input was sent, an op could not begin. From then on it
  /// waited for a credit and for the transport, if that came from another
  /// process, and then for the host. An op that runs beside another one waits
  /// for none.
  void add_waits(std::int64_t busy_until, const op_record& op,
                 std::int32_t row) {
    if (busy_until >= op.begin)
      return;
    const auto sent = std::clamp(op.ready, busy_until, op.begin);
    const auto left = std::clamp(op.left, sent, op.begin);
    const auto arrived = std::clamp(op.arrived, left, op.begin);
    add_wait(row, wait_kind::bubble, busy_until, sent);
    add_wait(row, wait_kind::credit, sent, left);
    add_wait(row, wait_kind::transport, left, arrived);
    add_wait(row, wait_kind::host, arrived, op.begin);
  }

  using done_of_plan = std::vector<const op_record*>;  // null: not recorded

  void add_transfers(const done_of_plan& done, std::int32_t data_rank,
                     std::int64_t step) {
    for (std::uint32_t i = 0; i < done.size(); ++i) {
      if (!done[i])
        continue;
      const auto& op = *done[i];
      const auto& what = plan_.ops[i];
      const auto host = host_begin_of(op);
      const auto add = [&](const char* type, stream_kind stream,
                           std::string name, std::int64_t begin,
                           std::int64_t end, std::int64_t launched) {
        picture_.transfers.push_back(
          {data_rank * plan_.ranks() + plan_.rank_of(i), stream, type,
           std::move(name), what.stage, what.microbatch, milliseconds(begin),
           milliseconds(end), step, milliseconds(launched)});
      };
      if (what.kind == plan_op_kind::send)
        add("send", what.stream, to_text(plan_, i), op.begin, op.end, host);
      else if (is_copy(what.kind))
        add(traits_of(what).name.data(), what.stream, to_text(plan_, i),
            op.begin, op.end, host);
      else if (is_joint(what.kind) && is_of_gradients(what.kind))
        add("reduce", what.stream, to_text(plan_, i), op.begin,
            std::max(op.end, reduced_at(i, done)), host);
      else if (what.kind == plan_op_kind::receive) {
        if (const auto* user = done[consumer_of(what)])
          add("receive", what.stream, to_text(plan_, i),
              std::max(user->left, user->ready),
              std::max(user->arrived, user->ready), host);
      } else if (what.kind == plan_op_kind::forward && what.stage == 0
                 && op.ready > 0)
        add("load", stream_kind::collective,
            fmt::format("0LOAD{}", what.microbatch), op.ready, op.ready,
            op.ready);
    }
  }

  std::uint32_t consumer_of(const plan_op& receive) const {
    return plan_.messages[static_cast<std::size_t>(receive.message)].consumer;
  }

  /// The norm of a stage's gradients waits for their reduction, or the sum of
  /// tied ones; 0: nothing tells.
  std::int64_t reduced_at(std::uint32_t reduce,
                          const done_of_plan& done) const {
    for (auto i = reduce + 1; i < done.size(); ++i)
      if (plan_.ops[i].kind == plan_op_kind::gradient_norm
          && plan_.ops[i].stage == plan_.ops[reduce].stage && done[i])
        return done[i]->ready;
    return 0;
  }

  /// On a CPU the host's clock is the device's.
  static std::int64_t host_begin_of(const op_record& op) {
    return op.host_begin == 0 ? op.begin : op.host_begin;
  }

  double milliseconds(std::int64_t ns) const {
    return static_cast<double>(ns - origin_) * ms_of_ns;
  }

  void add_wait(std::int32_t row, wait_kind kind, std::int64_t begin,
                std::int64_t end) {
    constexpr std::int64_t shortest = 1000;  // ns
    if (end - begin >= shortest)
      picture_.waits.push_back(
        {row, kind, milliseconds(begin), milliseconds(end)});
  }

  void add_span(const op_record& op, std::int32_t row, std::int64_t step,
                std::vector<std::size_t>& span_of) {
    const auto& what = plan_.ops[op.op];
    if (!takes_time(what.kind))
      return;
    span_of[op.op] = picture_.spans.size();
    picture_.spans.push_back({row, what.kind, what.stage, what.microbatch,
                              milliseconds(op.begin), milliseconds(op.end),
                              step, milliseconds(host_begin_of(op))});
  }

  static constexpr auto missing = std::numeric_limits<std::size_t>::max();

  const plan& plan_;
  std::int64_t origin_;
  timeline picture_;
};

struct timeline_state {
  timeline_files files;
  step_collector collector = {};
  struct kept_step {
    std::vector<ops_event> ops;
    std::vector<anomaly> anomalies;
  };
  std::deque<kept_step> steps = {};
  std::vector<anomaly> anomalies = {};  // of the step that runs

  void see(const event& what) {
    if (const auto* op = std::get_if<tensors_event>(&what)) {
      if (auto found = anomaly_of(*op))
        anomalies.push_back(std::move(*found));
      return;
    }
    if (voids_step(what))
      anomalies.clear();
    const auto* ops = collector.add(what);
    if (!ops || ops->empty())
      return;
    // A picture is of one plan.
    if (!steps.empty() && plan_of(steps.back().ops) != plan_of(*ops))
      steps.clear();
    steps.push_back({*ops, std::exchange(anomalies, {})});
    if (steps.size() > (files.trace.empty() ? 1 : files.steps))
      steps.pop_front();
  }

  std::int64_t kept_bytes() const {
    std::size_t bytes = 0;
    for (const auto& step : steps)
      for (const auto& rank : step.ops)
        bytes += sizeof(rank) + rank.ops.size() * sizeof(rank.ops.front());
    return static_cast<std::int64_t>(bytes);
  }

  static const std::shared_ptr<const plan>& plan_of(
    const std::vector<ops_event>& ops) {
    return ops.front().plan;
  }

  void finish() {
    if (steps.empty())
      return;
    const auto& last = steps.back();
    const auto& name = plan_of(last.ops)->schedule_name;
    if (!files.svg.empty())
      write_file_atomically(
        files.svg,
        draw_svg(picture_of({last}, fmt::format("{}: step {}, measured", name,
                                                last.ops.front().source.step)),
                 svg_theme::automatic, svg_width));
    if (!files.trace.empty())
      write_file_atomically(
        files.trace,
        draw_trace(picture_of(steps, fmt::format("{}, measured", name))));
  }

  static timeline picture_of(const std::deque<kept_step>& shown,
                             std::string title) {
    timeline_builder builder(*plan_of(shown.front().ops),
                             extent_of(shown.front().ops).begin);
    for (const auto& step : shown) {
      builder.add(step.ops);
      for (const auto& found : step.anomalies)
        builder.add(found);
    }
    auto picture = builder.take();
    picture.title = std::move(title);
    return picture;
  }
};

}  // namespace

timeline measured_timeline(const plan& plan,
                           const std::vector<ops_event>& ops) {
  timeline_builder builder(plan, extent_of(ops).begin);
  builder.add(ops);
  return builder.take();
}

monitor timeline_monitor(const timeline_files& files) {
  if (files.steps < 1)
    throw error(error_code::invalid_argument,
                "timeline: steps is 0; use 1 or more");
  auto result = monitor_of(
    "timeline", std::make_shared<timeline_state>(timeline_state{files}));
  result.wants.ops = true;
  result.wants.warnings = false;
  if (files.anomalies)
    result.wants.tensors = tensor_kind::activation
                           | tensor_kind::activation_gradient
                           | tensor_kind::gradient | tensor_kind::loss;
  return result;
}

}  // namespace troupe
