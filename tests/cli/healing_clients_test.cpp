// Clients of a job that heals, when another process leads it.
#include <catch2/catch_test_macros.hpp>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "healing_job.hpp"
#include "troupe/engine/transport/own_sockets.hpp"

using nlohmann::json;
using namespace troupe;
using namespace troupe::testing;

namespace {

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
