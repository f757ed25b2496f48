#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

namespace {

using json = nlohmann::json;

constexpr double microseconds = 1000;  // in a millisecond

/// A replica is a process. A rank's compute stream is the thread of its number;
/// its other streams have threads after those of all ranks. Steps have a thread
/// of their own in the first process.
struct thread_place {
  std::int32_t process = 0;
  std::int32_t thread = 0;

  auto operator<=>(const thread_place&) const = default;
};

constexpr auto streams =
  static_cast<std::int32_t>(stream_kind::receive_backward) + 1;

thread_place place_of(const timeline& timeline, std::int32_t row,
                      std::int32_t stream) {
  const auto ranks = timeline.ranks_per_replica();
  return {row / ranks, row % ranks + ranks * stream};
}
thread_place place_of(const timeline& timeline, std::int32_t row,
                      stream_kind stream) {
  return place_of(timeline, row, static_cast<std::int32_t>(stream));
}

thread_place steps_place(const timeline& timeline) {
  return {0, timeline.ranks_per_replica() * (streams + 1)};
}

/// How a stream's thread is called, and its kind.
struct stream_texts {
  const char* thread;
  const char* kind;
};

const stream_texts& texts_of(stream_kind stream) {
  static constexpr std::array<stream_texts, 8> all{
    {{"", "compute"},
     {", data", "data"},
     {", offloads to the host", "copy"},
     {", reloads from the host", "copy"},
     {", pipeline: sends activations", "pipeline"},
     {", pipeline: sends gradients", "pipeline"},
     {", pipeline: receives activations", "pipeline"},
     {", pipeline: receives gradients", "pipeline"}}};
  return all[slot(stream)];
}

/// With what all events have.
json event_of(const char* type, const thread_place& place,
              std::string_view name, json more) {
  more.update({{"ph", type},
               {"pid", place.process},
               {"tid", place.thread},
               {"name", name}});
  return more;
}

json name_event(const char* what, const thread_place& place,
                const std::string& name) {
  return event_of("M", place, what, {{"args", {{"name", name}}}});
}

/// Names a rank's thread.
json thread_event(const timeline& timeline, const thread_place& place,
                  std::int32_t row, const char* text) {
  const auto rank = row % timeline.ranks_per_replica();
  return name_event("thread_name", place,
                    "rank " + std::to_string(rank) + text);
}

/// The arguments of an event: type, step, stream, device and host time.
template <class Each>
json row_of(const Each& each, std::string_view type, stream_kind stream) {
  json row{{"type", type},
           {"stage", each.stage},
           {"stream", texts_of(stream).kind},
           {"device_us", each.start * microseconds},
           {"host_us", each.host_start * microseconds}};
  if (each.step != none)
    row["step"] = each.step;
  if (each.microbatch != none)
    row["microbatch"] = each.microbatch;
  return row;
}

/// A thread's events may not overlap: an op that begins while the one before it
/// runs has the thread of its rank's second compute stream, behind all others.
/// The two of an atomic pair are one op.
std::vector<thread_place> threads_of_spans(const timeline& timeline,
                                           json& events) {
  std::vector<thread_place> threads;
  std::map<std::int32_t, const timeline_span*> before;
  std::set<thread_place> named;
  for (const auto& span : timeline.spans) {
    threads.push_back(place_of(timeline, span.rank, stream_kind::compute));
    if (is_copy(span.kind)) {
      const auto stream = traits_of(span.kind).stream;
      threads.back() = place_of(timeline, span.rank, stream);
      if (named.insert(threads.back()).second)
        events.push_back(thread_event(timeline, threads.back(), span.rank,
                                      texts_of(stream).thread));
    }
    if (!is_compute(span.kind))
      continue;
    const auto* last = std::exchange(before[span.rank], &span);
    if (!last || span.start >= last->end || span.start == last->start)
      continue;
    threads.back() = place_of(timeline, span.rank, streams);
    if (named.insert(threads.back()).second)
      events.push_back(thread_event(timeline, threads.back(), span.rank,
                                    ", second compute stream"));
  }
  return threads;
}

json span_event(const timeline_span& span, const thread_place& thread) {
  return event_of(
    "X", thread, to_text(span),
    {{"cat", is_compute(span.kind) ? "compute"
             : is_copy(span.kind)  ? "copy"
                                   : "update"},
     {"ts", span.start * microseconds},
     {"dur", (span.end - span.start) * microseconds},
     {"args", row_of(span, traits_of(span.kind).name,
                     is_copy(span.kind) ? traits_of(span.kind).stream
                                        : stream_kind::compute)}});
}

/// Transfers of a stream may overlap, but a thread's events may not: each is
/// drawn from the end of the one before.
void append_transfers(const timeline& timeline, json& events) {
  std::map<thread_place, double> ends;
  auto ordered = timeline.transfers;
  std::ranges::stable_sort(ordered, {}, &timeline_transfer::start);
  for (const auto& each : ordered) {
    const auto thread = place_of(timeline, each.rank, each.stream);
    const auto [end, is_first] = ends.emplace(thread, 0);
    if (is_first)
      events.push_back(thread_event(timeline, thread, each.rank,
                                    texts_of(each.stream).thread));
    const auto start = std::max(each.start, end->second);
    end->second = std::max(start, each.end);
    events.push_back(
      event_of("X", thread, each.name,
               {{"cat", texts_of(each.stream).kind},
                {"ts", start * microseconds},
                {"dur", (end->second - start) * microseconds},
                {"args", row_of(each, each.type, each.stream)}}));
  }
}

/// Waits that are too short to be seen would be most of a trace.
constexpr double shortest_wait = 0.05;  // ms

json wait_event(const timeline& timeline, const timeline_wait& wait) {
  return event_of("X", place_of(timeline, wait.rank, stream_kind::compute),
                  to_text(wait.kind),
                  {{"cat", "wait"},
                   {"cname", "grey"},
                   {"ts", wait.start * microseconds},
                   {"dur", (wait.end - wait.start) * microseconds}});
}

json mark_event(const timeline& timeline, const timeline_mark& mark) {
  return event_of(
    "i", place_of(timeline, mark.rank, stream_kind::compute), mark.text,
    {{"cat", "anomaly"}, {"s", "t"}, {"ts", mark.at * microseconds}});
}

// An arrow binds to the span that encloses its time on its thread: it starts
// inside the producer and ends at the consumer's start.
json flow_event(const timeline& timeline,
                const std::vector<thread_place>& threads, std::size_t index,
                bool start) {
  const auto& flow = timeline.flows[index];
  const auto& span = timeline.spans[start ? flow.from : flow.to];
  auto event =
    event_of(start ? "s" : "f", threads[start ? flow.from : flow.to],
             flow.backward ? "gradient" : "activation",
             {{"id", index},
              {"cat", "message"},
              {"ts", (start ? (span.start + span.end) / 2 : span.start)
                       * microseconds}});
  if (!start)
    event["bp"] = "e";
  return event;
}

/// From the first op of each measured step to its last one, of all ranks.
void append_steps(const timeline& timeline, json& events) {
  struct extent {
    double start, end;
  };
  std::map<std::int64_t, extent> steps;
  for (const auto& span : timeline.spans)
    if (span.step != none) {
      auto& step =
        steps.emplace(span.step, extent{span.start, span.end}).first->second;
      step = {std::min(step.start, span.start), std::max(step.end, span.end)};
    }
  const auto place = steps_place(timeline);
  if (!steps.empty())
    events.push_back(name_event("thread_name", place, "steps"));
  for (const auto& [number, step] : steps)
    events.push_back(event_of("X", place, "step " + std::to_string(number),
                              {{"cat", "step"},
                               {"ts", step.start * microseconds},
                               {"dur", (step.end - step.start) * microseconds},
                               {"args", {{"step", number}}}}));
}

void append_waits(const timeline& timeline, json& events) {
  for (const auto& wait : timeline.waits)
    if (wait.end - wait.start >= shortest_wait)
      events.push_back(wait_event(timeline, wait));
}

/// Names processes, and a thread for each rank.
void append_names(const timeline& timeline, json& events) {
  const auto ranks = timeline.ranks_per_replica();
  for (std::int32_t replica = 0; replica < timeline.replicas; ++replica)
    events.push_back(
      name_event("process_name", {replica, 0},
                 timeline.replicas == 1
                   ? timeline.title
                   : timeline.title + ", replica " + std::to_string(replica)));
  for (std::int32_t row = 0; row < timeline.ranks; ++row)
    events.push_back(
      thread_event(timeline, {row / ranks, row % ranks}, row, ""));
}

}  // namespace

std::string draw_trace(const timeline& timeline) {
  auto events = json::array();
  append_names(timeline, events);
  append_steps(timeline, events);
  const auto threads = threads_of_spans(timeline, events);
  for (std::size_t i = 0; i < timeline.spans.size(); ++i)
    events.push_back(span_event(timeline.spans[i], threads[i]));
  append_transfers(timeline, events);
  append_waits(timeline, events);
  for (const auto& mark : timeline.marks)
    events.push_back(mark_event(timeline, mark));
  for (std::size_t i = 0; i < timeline.flows.size(); ++i)
    for (const auto start : {true, false})
      events.push_back(flow_event(timeline, threads, i, start));
  // A title may contain any bytes, as it can be a file's name.
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump(
           -1, ' ', false, json::error_handler_t::replace)
         + '\n';
}

}  // namespace troupe
