#include "troupe/monitors/timeline.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "troupe/engine/plan/compile.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Approx;

namespace {

nlohmann::json traced(const trainer_options& options, timeline_files files,
                      const source_pointer& source, int steps) {
  const temporary_folder folder;
  files.trace = folder / "t.json";
  files.svg = folder / "t.svg";
  trainer run(model_g(), options);
  run.attach(timeline_monitor(run.shared_plan(), files));
  for (int i = 0; i < steps; ++i)
    run.step(source, true);
  run.finish_monitors();
  CHECK(read_file(files.svg).starts_with("<svg"));
  return nlohmann::json::parse(read_file(files.trace)).at("traceEvents");
}

}  // namespace

TEST_CASE("waits for an input and for the host are told apart") {
  const auto of = compile(make_schedule("1f1b", {.ranks = 1}), {});
  ops_event ops;
  ops.ops = {{0, 0, 0, 1'000'000, 2'000'000},
             {1, 1, 3'000'000, 3'500'000, 5'000'000}};
  ops.source.rank = 0;
  const auto made = measured_timeline(of, {ops});
  REQUIRE(made.waits.size() == 2);
  CHECK(made.waits[0].kind == wait_kind::bubble);
  CHECK(made.waits[0].start == Approx(1));
  CHECK(made.waits[0].end == Approx(2));
  CHECK(made.waits[1].kind == wait_kind::host);
  CHECK(made.waits[1].end == Approx(2.5));
}

TEST_CASE("waits for credit and transport are told apart, too") {
  const auto of = compile(make_schedule("1f1b", {.ranks = 1}), {});
  ops_event ops;
  ops.ops = {{0, 0, 0, 1'000'000, 2'000'000},
             {1, 1, 3'000'000, 6'500'000, 7'000'000, 4'000'000, 6'000'000}};
  ops.source.rank = 0;
  const auto made = measured_timeline(of, {ops});
  std::vector<std::pair<std::string, double>> ends;
  for (const auto& wait : made.waits)
    ends.emplace_back(to_text(wait.kind), wait.end);
  CHECK(ends
        == std::vector<std::pair<std::string, double>>{
          {to_text(wait_kind::bubble), 2},
          {to_text(wait_kind::credit), 3},
          {to_text(wait_kind::transport), 5},
          {to_text(wait_kind::host), 5.5}});
}

TEST_CASE("a trace's events nest, its arrows pair up, and nothing overlaps") {
  const auto events =
    traced(options_g(2, 2, 1), {.trace_steps = 3}, source_g(2), 5);
  std::map<int, double> end_by_row;
  std::map<int, std::string> open_flows;
  std::map<std::string, int> counts;
  for (const auto& event : events) {
    const auto phase = event.at("ph").get<std::string>();
    const auto category = event.value("cat", "");
    ++counts[phase + category];
    if (phase == "X") {
      CHECK(event.at("dur").get<double>() >= 0);
      CHECK(event.at("ts").get<double>() >= 0);
    }
    if (phase == "X" && category != "wait") {
      auto& end = end_by_row[event.at("tid").get<int>()];
      CHECK(event.at("ts").get<double>() >= end - 1e-3);
      end = event.at("ts").get<double>() + event.at("dur").get<double>();
      for (const auto* key : {"type", "step", "stream", "device_us", "host_us"})
        CHECK(event.at("args").contains(key));
    }
    if (phase == "s")
      CHECK(
        open_flows.emplace(event.at("id").get<int>(), event.at("name")).second);
    if (phase == "f")
      CHECK(open_flows.erase(event.at("id").get<int>()) == 1);
  }
  CHECK(open_flows.empty());
  CHECK(counts["Xcompute"] == 3 * 8);  // steps x ranks x microbatches x (F, B)
  CHECK(counts["smessage"] == 3 * 4);
}

TEST_CASE("ops in which a tensor was not finite are marked") {
  const auto bad = make_source([](std::int64_t k) {
    auto rows = rows_g().narrow(0, 0, 2).clone();
    if (k == 1)
      rows[0][0] = NAN;
    return microbatch_data{{rows}, {}, {}, 2};
  });
  const auto events = traced(options_g(2, 2), {.anomalies = true}, bad, 2);
  std::string first;
  for (const auto& event : events)
    if (event.value("cat", "") == "anomaly" && first.empty())
      first = event.at("name").get<std::string>();
  CHECK(first == "output of fc is not finite");
}
