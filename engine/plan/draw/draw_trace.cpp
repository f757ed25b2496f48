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

/// A rank's compute stream is the thread of its number; its other streams have
/// threads after those of all ranks.
std::int32_t thread_of(const timeline& timeline, std::int32_t rank,
                       stream_kind stream) {
  return rank + timeline.ranks * static_cast<std::int32_t>(stream);
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
json event_of(const char* type, std::int32_t thread, std::string_view name,
              json more) {
  more.update({{"ph", type}, {"pid", 0}, {"tid", thread}, {"name", name}});
  return more;
}

json name_event(const char* what, std::int32_t thread,
                const std::string& name) {
  return event_of("M", thread, what, {{"args", {{"name", name}}}});
}

/// Names a rank's thread.
json thread_event(std::int32_t thread, std::int32_t rank, const char* text) {
  return name_event("thread_name", thread,
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
std::vector<std::int32_t> threads_of_spans(const timeline& timeline,
                                           json& events) {
  constexpr auto streams =
    static_cast<std::int32_t>(stream_kind::receive_backward) + 1;
  std::vector<std::int32_t> threads;
  std::map<std::int32_t, const timeline_span*> before;
  std::set<std::int32_t> named;
  for (const auto& span : timeline.spans) {
    threads.push_back(span.rank);
    if (is_copy(span.kind)) {
      const auto stream = traits_of(span.kind).stream;
      threads.back() = thread_of(timeline, span.rank, stream);
      if (named.insert(threads.back()).second)
        events.push_back(
          thread_event(threads.back(), span.rank, texts_of(stream).thread));
    }
    if (!is_compute(span.kind))
      continue;
    const auto* last = std::exchange(before[span.rank], &span);
    if (!last || span.start >= last->end || span.start == last->start)
      continue;
    threads.back() += timeline.ranks * streams;
    if (named.insert(threads.back()).second)
      events.push_back(
        thread_event(threads.back(), span.rank, ", second compute stream"));
  }
  return threads;
}

json span_event(const timeline_span& span, std::int32_t thread) {
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
  std::map<std::int32_t, double> ends;
  auto ordered = timeline.transfers;
  std::ranges::stable_sort(ordered, {}, &timeline_transfer::start);
  for (const auto& each : ordered) {
    const auto thread = thread_of(timeline, each.rank, each.stream);
    const auto [end, is_first] = ends.emplace(thread, 0);
    if (is_first)
      events.push_back(
        thread_event(thread, each.rank, texts_of(each.stream).thread));
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

json wait_event(const timeline_wait& wait) {
  return event_of("X", wait.rank, to_text(wait.kind),
                  {{"cat", "wait"},
                   {"cname", "grey"},
                   {"ts", wait.start * microseconds},
                   {"dur", (wait.end - wait.start) * microseconds}});
}

json mark_event(const timeline_mark& mark) {
  return event_of(
    "i", mark.rank, mark.text,
    {{"cat", "anomaly"}, {"s", "t"}, {"ts", mark.at * microseconds}});
}

// An arrow binds to the span that encloses its time on its thread: it starts
// inside the producer and ends at the consumer's start.
json flow_event(const timeline& timeline,
                const std::vector<std::int32_t>& threads, std::size_t index,
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

}  // namespace

std::string draw_trace(const timeline& timeline) {
  auto events = json::array();
  events.push_back(name_event("process_name", 0, timeline.title));
  for (std::int32_t rank = 0; rank < timeline.ranks; ++rank)
    events.push_back(thread_event(rank, rank, ""));
  const auto threads = threads_of_spans(timeline, events);
  for (std::size_t i = 0; i < timeline.spans.size(); ++i)
    events.push_back(span_event(timeline.spans[i], threads[i]));
  append_transfers(timeline, events);
  for (const auto& wait : timeline.waits)
    events.push_back(wait_event(wait));
  for (const auto& mark : timeline.marks)
    events.push_back(mark_event(mark));
  for (std::size_t i = 0; i < timeline.flows.size(); ++i)
    for (const auto start : {true, false})
      events.push_back(flow_event(timeline, threads, i, start));
  // A title may contain any bytes, as it can be a file's name.
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump(
           -1, ' ', false, json::error_handler_t::replace)
         + '\n';
}

}  // namespace troupe
