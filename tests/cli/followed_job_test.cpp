// Clients of a job that heals, when another process leads it.
#include "troupe/cli/live/followed_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "healing_job.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/engine/transport/own_sockets.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/job_server.hpp"

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using namespace troupe;
using namespace troupe::cli;
using namespace troupe::testing;

namespace {

/// What a process that leads a job serves, without the job.
std::unique_ptr<job_server> leader(const std::string& where, const json& info,
                                   bool goes_on = false) {
  job_operations operations;
  operations.info = [info] { return info; };
  const auto attached = std::make_shared<std::optional<monitor>>();
  operations.attach = [attached](monitor what) {
    *attached = std::move(what);
    return 1;
  };
  operations.detach = [attached](std::int64_t) { (*attached)->finish(); };
  operations.goes_on = [goes_on] { return goes_on; };
  return std::make_unique<job_server>(
    where, job_server_options{.operations = operations});
}

/// The last message of the streams, once all have ended.
std::optional<live_message> last_of(live_client& client) {
  std::optional<live_message> last;
  client.stream([&](const live_message& message) {
    last = message;
    return true;
  });
  return last;
}

live_message finding(const char* type, std::int64_t step, double value) {
  const event_source source{.step = step};
  if (type == std::string("alert"))
    return {type, 1, json_of(alert{source, "gap", std::to_string(value)})};
  return {type, 1, json_of(metrics_record{source, {{"x", value}}, {}})};
}

live_message event_message(const event& what) {
  return {"event", 1, json_of(what)};
}

/// The numbers of the steps that `events --json` has printed.
std::vector<std::int64_t> steps_in(const std::string& output) {
  std::vector<std::int64_t> steps;
  std::istringstream in(output.substr(0, output.rfind('\n')));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with('{'))
      if (const auto what = json::parse(line); what["event"] == "step")
        steps.push_back(what["source"]["step"]);
  return steps;
}

/// Waits until it has printed steps beyond this one.
bool goes_beyond(const background_program& events, std::int64_t step) {
  for (int i = 0; i < 6000; ++i) {
    const auto steps = steps_in(events.output());
    if (!steps.empty() && steps.back() > step)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("a client follows a job to the process that leads it next") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  auto first = leader(where, {{"pid", 11}, {"epoch", 2}}, true);
  followed_job job({where, ""});
  job.client().watch({});
  first.reset();
  const auto last = last_of(job.client());
  REQUIRE(last);
  CHECK(last->content["goes_on"] == true);
  const auto second = leader(where, {{"pid", 12}, {"epoch", 3}});
  REQUIRE(job.follow(&*last));
  CHECK(job.client().health()["epoch"] == 3);
  // The connection was closed by the process that still leads the job.
  CHECK_FALSE(job.follow(nullptr));
}

TEST_CASE("a job that is over, or does not heal, is not followed") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  auto served = leader(where, {{"pid", 11}, {"epoch", 2}});
  followed_job over({where, ""});
  over.client().watch({});
  served.reset();
  const auto last = last_of(over.client());
  REQUIRE(last);
  CHECK_FALSE(last->content.contains("goes_on"));
  CHECK_FALSE(over.follow(&*last));
  served = leader(where, {{"pid", 11}});
  followed_job mortal({where, ""});
  served.reset();
  CHECK_FALSE(mortal.follow(nullptr));
  served = leader(where, {{"pid", 11}, {"epoch", 2}});
  followed_job lost({where, ""}, 0.1);
  served.reset();
  CHECK_FALSE(lost.follow(nullptr));  // nobody answers in time
  lost.interrupt();
  CHECK_THROWS_AS(followed_job({where, ""}), error);
}

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

TEST_CASE("the endpoint of a job that heals is the same in all its processes") {
  CHECK(job_endpoint("one") == job_endpoint("one"));
  CHECK(job_endpoint("one") != job_endpoint("other"));
}

TEST_CASE("clients of a job that heals stay when its first process is lost") {
  const temporary_folder folder;
  const auto user = "env XDG_RUNTIME_DIR=" + (folder / "");
  healing_job job("--processes 2",
                  "--ranks 2 --validation-fraction 0 --steps 1000000", "",
                  user);
  REQUIRE(job.says("attach with: troupe top "));
  const auto client = [&](const std::string& words, const char* output) {
    return std::make_unique<background_program>(
      fmt::format("{} {} {}", user, program, words), folder / output);
  };
  const auto events = client("events --json", "events");
  const auto found = client("attach throughput --json", "found");
  const auto top = client("top --json --interval 0.1", "top");
  REQUIRE(goes_beyond(*events, 3));
  REQUIRE(found->writes("throughput/bubble"));
  REQUIRE(top->writes("step_took"));
  ::kill(job.process(0), SIGKILL);
  for (const auto* each : {&events, &found, &top})
    CHECK((*each)->writes("leads the job"));
  REQUIRE(goes_beyond(*events, steps_in(events->output()).back() + 20));
  ::kill(job.process(1), SIGTERM);  // which leads now, and leaves
  CHECK(job.says("this process has left the job"));
  REQUIRE(goes_beyond(*events, steps_in(events->output()).back() + 20));
  const auto steps = steps_in(events->output());
  CHECK(std::ranges::is_sorted(steps, std::ranges::less_equal{}));
  ::kill(job.process(0), SIGINT);
  CHECK(job.end() == 128 + SIGINT);
  for (const auto* each : {&events, &found, &top}) {
    CHECK((*each)->end(0) == 0);
    INFO((*each)->output());
    const auto output = (*each)->output();
    const auto place = output.find("leads the job");
    CHECK(output.find("leads the job", place + 1) != std::string::npos);
    CHECK(output.find("no process has led") == std::string::npos);
  }
}
