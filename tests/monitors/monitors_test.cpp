#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/monitors/step_times.hpp"
#include "troupe/monitors/timing/timeline.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

std::shared_ptr<const plan> two_ranks() {
  return std::make_shared<const plan>(
    compile(make_schedule("1f1b", {2, 1, 2})));
}

/// A simulated step in which a forward takes 1 ms and a backward 2 ms.
std::vector<ops_event> on_paper(const plan_pointer& planned,
                                std::int64_t step = 1) {
  const auto& of = *planned;
  const auto paper = simulate(of);
  std::vector<ops_event> ranks;
  for (std::int32_t r = 0; r < of.ranks(); ++r) {
    ops_event rank;
    rank.plan = planned;
    rank.source.step = step;
    rank.source.rank = r;
    const auto first = of.first_op[static_cast<std::size_t>(r)];
    for (std::uint32_t i = 0; i < of.lane(r).size(); ++i) {
      const auto op = first + i;
      const auto ms = [&](double t) {
        return static_cast<std::int64_t>(
          std::llround((t + 100.0 * static_cast<double>(step)) * 1e6));
      };
      if (is_compute(of.ops[op].kind))
        rank.ops.push_back({op, i, 0, ms(paper.start[op]), ms(paper.end[op])});
    }
    ranks.push_back(rank);
  }
  return ranks;
}

step_event summary(std::int64_t step) {
  step_event result;
  result.source.step = step;
  result.losses = {{"loss", 2.5, 8}};
  result.gradient_norm = 0.8125;
  result.learning_rate = 3e-4;
  result.updated = true;
  result.tokens = 41200;
  result.begin = 0;
  result.end = 1'000'000'000;
  result.resident_bytes = 412ll * 1024 * 1024;
  return result;
}

void feed(const monitor& to, const plan_pointer& of, std::int64_t step) {
  for (const auto& rank : on_paper(of, step))
    to.see(rank);
  to.see(summary(step));
}

}  // namespace

TEST_CASE("a measured step has the bubble that it had on paper") {
  const auto plan = two_ranks();
  const auto times = times_of(*plan, on_paper(plan));
  const auto paper = simulate(*plan);
  CHECK(std::abs(times.seconds - paper.makespan * 1e-3) < 1e-9);
  CHECK(std::abs(times.plan_seconds - times.seconds) < 1e-9);
  CHECK(std::abs(times.bubble - paper.bubble) < 1e-6);
  CHECK(std::abs(times.plan_bubble - paper.bubble) < 1e-6);
  CHECK(times_of(*plan, {}).seconds == 0);
}

TEST_CASE("the progress line reads as promised") {
  const step_times times{1, 0.18, 1, 0.16};
  CHECK(progress_line(summary(12), 200, &times)
        == "step 12/200 loss 2.5000 grad_norm 0.8125 lr 3e-4 tok/s 41.2k "
           "bubble 18 % (plan 16 %) mem 412 MiB");
  auto skipped = summary(1);
  skipped.updated = false;
  skipped.loss_scale = 65536;
  skipped.learning_rate = 0.0099999;
  skipped.metrics = {{"accuracy", 0.5, 1}};
  CHECK_THAT(progress_line(skipped, 2),
             ContainsSubstring("accuracy 0.5 grad_norm")
               && ContainsSubstring("lr 0.01 ")
               && ContainsSubstring("loss_scale 6.55e4 (update skipped)")
               && !ContainsSubstring("bubble"));
  auto validation = summary(7);
  validation.source.phase = phase::validation;
  CHECK(progress_line(validation, 9) == "validation at step 7 loss 2.5000");
  auto generated = summary(7);
  generated.source.phase = phase::inference;
  generated.losses.clear();
  generated.tokens = 64;
  CHECK_THAT(
    progress_line(generated, 9),
    Catch::Matchers::StartsWith("inference at step 7 tokens 64 tok/s "));
}

TEST_CASE("the timeline monitor draws the last step and traces the last ones") {
  const auto plan = two_ranks();
  const temporary_folder folder;
  const timeline_files files{folder / "t.svg", folder / "t.json", 2};
  const auto watcher = timeline_monitor(files);
  CHECK(watcher.wants.ops);
  for (std::int64_t step = 1; step <= 3; ++step)
    feed(watcher, plan, step);
  CHECK(folder.empty());
  watcher.finish();
  CHECK_THAT(content(files.svg), ContainsSubstring("step 3, measured"));
  const auto trace = nlohmann::json::parse(content(files.trace));
  std::map<std::string, int> phases;
  for (const auto& event : trace["traceEvents"])
    if (event.value("cat", "") != "wait" && event.value("cat", "") != "step")
      ++phases[event["ph"].get<std::string>()];
  CHECK(phases["X"] == 2 * 8);  // two steps of two ranks' 2 F and 2 B
  CHECK(phases["s"] == 2 * 4);  // two forwards' and two backwards' messages
  CHECK(phases["f"] == phases["s"]);
}

TEST_CASE("a picture that can't be written is an error, and no file") {
  const auto plan = two_ranks();
  const temporary_folder folder;
  const auto watcher = timeline_monitor({folder / "no/such/t.svg", "", 1});
  feed(watcher, plan, 1);
  CHECK_THROWS_AS(watcher.finish(), error);
  CHECK(folder.empty());
}

TEST_CASE("metrics are JSON lines, also of slow loads and failures") {
  const auto plan = two_ranks();
  const temporary_folder folder;
  const auto path = folder / "log";
  {
    const auto watcher = metrics_monitor(path);
    feed(watcher, plan, 1);
    slow_load_event slow;
    slow.seconds = 1.5;
    watcher.see(slow);
    failure_event failure;
    failure.op = "1F2";
    failure.reason = "broken";
    watcher.see(failure);
  }
  std::ifstream in(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);)
    lines.push_back(nlohmann::json::parse(line));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0]["loss"] == 2.5);
  CHECK(lines[0]["tokens_per_second"] == 41200);
  CHECK(lines[0]["bubble"].get<double>() > 0);
  CHECK(lines[1]["seconds"] == 1.5);
  CHECK(lines[2]["failure"] == "broken");
  CHECK_THROWS_AS(metrics_monitor(folder / "no/such"), error);
}
