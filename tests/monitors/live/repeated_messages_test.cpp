#include "troupe/monitors/live/repeated_messages.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/live/event_json.hpp"

using namespace troupe;

namespace {

live_message finding(const char* type, std::int64_t step, double value) {
  const event_source source{.step = step};
  if (type == std::string("alert"))
    return {type, 1, json_of(alert{source, "gap", std::to_string(value)})};
  return {type, 1, json_of(metrics_record{source, {{"x", value}}, {}})};
}

live_message event_message(const event& what) {
  return {"event", 1, json_of(what)};
}

}  // namespace

TEST_CASE("what a client has seen is not shown again when steps are repeated") {
  repeated_messages seen;
  const auto step = [](std::int64_t number) {
    step_event what;
    what.source.step = number;
    return event_message(what);
  };
  const auto memory = [](std::int64_t number) {
    memory_event what;
    what.source.step = number;
    return event_message(what);
  };
  for (const std::int64_t n : {1, 2})
    CHECK_FALSE(seen.note(step(n), 0));
  CHECK_FALSE(seen.note(memory(3), 0));  // and then its process is lost
  CHECK_FALSE(seen.note(finding("metrics", 2, 0.1), 1));
  CHECK_FALSE(seen.note(finding("alert", 2, 1), 1));
  seen.repeat();
  CHECK(seen.note(step(2), 0));
  CHECK_FALSE(seen.note(memory(3), 0));
  CHECK_FALSE(seen.note(step(3), 0));
  CHECK(seen.note(finding("metrics", 1, 0.2), 1));
  CHECK(seen.note(finding("metrics", 2, 0.2), 1));
  CHECK(seen.note(finding("alert", 2, 1), 1));
  CHECK_FALSE(seen.note(finding("alert", 2, 2), 1));
  for (int i = 0; i < 2; ++i)
    CHECK_FALSE(seen.note(finding("metrics", 3, 0.1), 1));
  CHECK_FALSE(seen.note({"printed", 1, {{"text", "a report"}}}, 1));
}
