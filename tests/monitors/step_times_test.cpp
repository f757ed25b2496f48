#include "troupe/monitors/step_times.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/overlapped_pairs.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/monitors/timing/cost_samples.hpp"
#include "troupe/monitors/timing/timeline.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using Catch::Approx;

namespace {

constexpr std::int64_t ms = 1'000'000;

/// One rank whose device runs its compute ops in 10 ms each, one after the
/// other; the second op of a pair begins 4 ms after the first.
struct paired_rank {
  paired_rank() {
    plan_pointer = std::make_shared<const plan>(compile(make_schedule(
      "dualpipe_v", {.ranks = 1, .stages_per_rank = 2, .microbatches = 4})));
    rank.plan = plan_pointer;
    rank.source.rank = 0;
    rank.source.data_rank = 0;
    std::int64_t now = 0;
    for (std::uint32_t i = 0; i < plan_pointer->ops.size(); ++i) {
      if (!is_compute(plan_pointer->ops[i].kind))
        continue;
      rank.ops.push_back({.op = i, .begin = now, .end = now + 10 * ms});
      const auto partner = partner_of(*plan_pointer, i);
      now += (partner ? 4 : 10) * ms;
      pairs += partner ? 1 : 0;
    }
    busy = now;
  }
  std::shared_ptr<const plan> plan_pointer;
  ops_event rank;
  int pairs = 0;
  std::int64_t busy = 0;
};

}  // namespace

TEST_CASE("a rank is busy once while the ops of a pair run at once") {
  const paired_rank at;
  CHECK(at.pairs >= 2);
  CHECK(busy_time(at.rank.ops) == at.busy);
  CHECK(busy_time({}) == 0);
  // A pair's second op may begin first.
  CHECK(busy_time({{.begin = 5, .end = 9}, {.begin = 2, .end = 6}}) == 7);
  CHECK(busy_time({{.begin = 5, .end = 9}, {.begin = 6, .end = 7}}) == 4);
}

TEST_CASE("the second op of a pair takes what it runs without the first") {
  const paired_rank at;
  const auto times = op_times(*at.plan_pointer, at.rank);
  REQUIRE(times.size() == at.rank.ops.size());
  int shorter = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool second = i > 0
                        && partner_of(*at.plan_pointer, at.rank.ops[i - 1].op)
                             == at.rank.ops[i].op;
    CHECK(times[i] == (second ? 4 : 10) * ms);
    shorter += second;
  }
  CHECK(shorter == at.pairs);
}

TEST_CASE("a step with overlapped pairs has no negative bubble") {
  const paired_rank at;
  const auto times = times_of(*at.plan_pointer, {at.rank});
  CHECK(times.seconds == Approx(static_cast<double>(at.busy) * 1e-9));
  CHECK(times.bubble == Approx(0).margin(1e-9));
  CHECK(times.plan_seconds == Approx(times.seconds));
  cost_samples costs;
  costs.add({at.rank});
  CHECK(costs.text().find("f.0=10\n") != std::string::npos);
}

TEST_CASE("the ops of a pair are events of two threads, without a wait") {
  const paired_rank at;
  const auto drawn = measured_timeline(*at.plan_pointer, {at.rank});
  CHECK(drawn.waits.empty());
  const auto trace = nlohmann::json::parse(draw_trace(drawn));
  int beside = 0, named = 0;
  std::map<int, double> ends;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("name") == "thread_name")
      named += event.at("args").at("name") == "rank 0, second compute stream";
    if (event.value("cat", "") != "compute")
      continue;
    const auto thread = event.at("tid").get<int>();
    beside += thread != 0;
    CHECK(event.at("ts").get<double>() >= ends[thread] - 1e-6);
    ends[thread] = event.at("ts").get<double>() + event.at("dur").get<double>();
  }
  CHECK(beside == at.pairs);
  CHECK(named == 1);
}
