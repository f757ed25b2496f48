#include <nlohmann/json.hpp>

#include "troupe/engine/plan/draw.hpp"
#include "troupe/engine/plan/op_text.hpp"

namespace troupe {

namespace {

using json = nlohmann::json;

constexpr double microseconds = 1000;  // in a millisecond

json name_event(const char* what, std::int32_t rank, const std::string& name) {
  return {{"ph", "M"},
          {"pid", 0},
          {"tid", rank},
          {"name", what},
          {"args", {{"name", name}}}};
}

// On a CPU all ops run on the rank's thread, and the host's clock is the
// device's.
json span_event(const timeline_span& of) {
  json event{{"ph", "X"},
             {"pid", 0},
             {"tid", of.rank},
             {"name", to_text(of)},
             {"cat", is_compute(of.kind) ? "compute" : "update"},
             {"ts", of.start * microseconds},
             {"dur", (of.end - of.start) * microseconds},
             {"args",
              {{"stage", of.stage},
               {"type", long_name(of.kind)},
               {"stream", "compute"},
               {"host_us", of.start * microseconds},
               {"device_us", of.start * microseconds}}}};
  if (of.step != none)
    event["args"]["step"] = of.step;
  if (of.microbatch != none)
    event["args"]["microbatch"] = of.microbatch;
  return event;
}

json wait_event(const timeline_wait& of) {
  return {{"ph", "X"},
          {"pid", 0},
          {"tid", of.rank},
          {"name", to_text(of.kind)},
          {"cat", "wait"},
          {"cname", "grey"},
          {"ts", of.start * microseconds},
          {"dur", (of.end - of.start) * microseconds}};
}

json mark_event(const timeline_mark& of) {
  return {{"ph", "i"},
          {"pid", 0},
          {"tid", of.rank},
          {"name", of.text},
          {"cat", "anomaly"},
          {"s", "t"},
          {"ts", of.at * microseconds}};
}

// An arrow binds to the span that encloses its time on its thread: it leaves
// inside the producer and arrives at the consumer's start.
json flow_event(const timeline& of, std::size_t index, bool start) {
  const auto& flow = of.flows[index];
  const auto& span = of.spans[start ? flow.from : flow.to];
  json event{
    {"ph", start ? "s" : "f"},
    {"pid", 0},
    {"tid", span.rank},
    {"id", index},
    {"cat", "message"},
    {"name", flow.backward ? "gradient" : "activation"},
    {"ts", (start ? (span.start + span.end) / 2 : span.start) * microseconds}};
  if (!start)
    event["bp"] = "e";
  return event;
}

}  // namespace

std::string draw_trace(const timeline& of) {
  auto events = json::array();
  events.push_back(name_event("process_name", 0, of.title));
  for (std::int32_t rank = 0; rank < of.ranks; ++rank)
    events.push_back(
      name_event("thread_name", rank, "rank " + std::to_string(rank)));
  for (const auto& span : of.spans)
    events.push_back(span_event(span));
  for (const auto& wait : of.waits)
    events.push_back(wait_event(wait));
  for (const auto& mark : of.marks)
    events.push_back(mark_event(mark));
  for (std::size_t i = 0; i < of.flows.size(); ++i)
    for (const auto start : {true, false})
      events.push_back(flow_event(of, i, start));
  // A title may be any bytes: a file's name.
  return json{{"displayTimeUnit", "ms"}, {"traceEvents", events}}.dump(
           -1, ' ', false, json::error_handler_t::replace)
         + '\n';
}

}  // namespace troupe
