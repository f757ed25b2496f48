#include "troupe/monitors/timing/timeline.hpp"
#include "troupe/engine/data/microbatch_source.hpp"

#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
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
  run.attach(timeline_monitor(files));
  for (int i = 0; i < steps; ++i)
    run.step(source, true);
  run.finish_monitors();
  const auto svg = read_file(files.svg);
  CHECK(svg.starts_with("<svg"));
  CHECK_THAT(svg, Catch::Matchers::ContainsSubstring(" width=\"1280\""));
  return nlohmann::json::parse(read_file(files.trace)).at("traceEvents");
}

}  // namespace

TEST_CASE("waits for an input and for the host are told apart") {
  const auto of = compile(make_schedule("1f1b", {.ranks = 1}), {});
  ops_event ops;
  ops.ops = {{0, 0, 0, 1'000'000, 2'000'000},
             {1, 1, 3'000'000, 3'500'000, 5'000'000}};
  ops.source.rank = 0;
  const auto measured = measured_timeline(of, {ops});
  REQUIRE(measured.waits.size() == 2);
  CHECK(measured.waits[0].kind == wait_kind::bubble);
  CHECK(measured.waits[0].start == Approx(1));
  CHECK(measured.waits[0].end == Approx(2));
  CHECK(measured.waits[1].kind == wait_kind::host);
  CHECK(measured.waits[1].end == Approx(2.5));
}

TEST_CASE("waits for credit and transport are told apart, too") {
  const auto of = compile(make_schedule("1f1b", {.ranks = 1}), {});
  ops_event ops;
  ops.ops = {{0, 0, 0, 1'000'000, 2'000'000},
             {1, 1, 3'000'000, 6'500'000, 7'000'000, 4'000'000, 6'000'000}};
  ops.source.rank = 0;
  const auto measured = measured_timeline(of, {ops});
  std::vector<std::pair<std::string, double>> ends;
  for (const auto& wait : measured.waits)
    ends.emplace_back(to_text(wait.kind), wait.end);
  CHECK(ends
        == std::vector<std::pair<std::string, double>>{
          {to_text(wait_kind::bubble), 2},
          {to_text(wait_kind::credit), 3},
          {to_text(wait_kind::transport), 5},
          {to_text(wait_kind::host), 5.5}});
}

namespace {

/// The events of a category, by name.
std::map<std::string, nlohmann::json> events_of(const nlohmann::json& trace,
                                                const std::string& category) {
  std::map<std::string, nlohmann::json> events;
  for (const auto& event : trace.at("traceEvents"))
    if (event.value("cat", "") == category)
      events[event.at("name").get<std::string>()] = event;
  return events;
}

/// One microbatch through two ranks: op i of the plan runs on its device from
/// 10 i + 5 to 10 i + 8 ms and was launched at 10 i + 1 ms. A message leaves
/// its process 1 ms after it was sent, and arrives 2 ms later.
std::vector<ops_event> two_processes(const plan& of) {
  constexpr std::int64_t ms = 1'000'000;
  std::vector<ops_event> ranks(2);
  for (std::uint32_t i = 0; i < of.ops.size(); ++i) {
    const auto rank = of.rank_of(i);
    auto& event = ranks[static_cast<std::size_t>(rank)];
    event.source.step = 7;
    event.source.rank = rank;
    const std::int64_t t = 10 * i * ms;
    op_record op{i, static_cast<std::uint32_t>(event.ops.size()), 0, t + 5 * ms,
                 t + 8 * ms};
    op.host_begin = t + ms;
    op.host_end = t + 2 * ms;
    for (const auto& message : of.messages)
      if (message.consumer == i) {
        op.ready = 10 * message.producer * ms + 8 * ms;
        op.left = op.ready + ms;
        op.arrived = op.left + 2 * ms;
      }
    if (of.ops[i].kind == plan_op_kind::forward && rank == 0)
      op.ready = t + 5 * ms;
    event.ops.push_back(op);
  }
  return ranks;
}

}  // namespace

TEST_CASE("a trace tells type, step, stream, device and host time") {
  const auto of =
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 1}), {});
  const auto trace =
    nlohmann::json::parse(draw_trace(measured_timeline(of, two_processes(of))));
  const auto find = [&](plan_op_kind kind, std::int32_t rank) {
    for (std::uint32_t i = of.first_op[static_cast<std::size_t>(rank)];; ++i)
      if (of.ops[i].kind == kind)
        return i;
  };
  const auto us = [](std::int64_t ms) { return 1000.0 * (ms - 5); };
  const auto check = [&](const nlohmann::json& event, const std::string& type,
                         std::int64_t begin, std::int64_t end,
                         std::int64_t host) {
    INFO(event.dump());
    CHECK(event.at("ts").get<double>() == Approx(us(begin)));
    CHECK(event.at("dur").get<double>() == Approx(us(end) - us(begin)));
    const auto& row = event.at("args");
    CHECK(row.at("step") == 7);
    CHECK(row.at("type") == type);
    CHECK(row.at("device_us").get<double>() == Approx(us(begin)));
    CHECK(row.at("host_us").get<double>() == Approx(us(host)));
  };
  const auto at = [](std::uint32_t op) { return 10 * std::int64_t{op}; };

  auto compute = events_of(trace, "compute");
  CHECK(compute.size() == 4);
  const auto backward = at(find(plan_op_kind::backward, 1));
  check(compute.at("1B0"), "backward", backward + 5, backward + 8,
        backward + 1);
  CHECK(compute.at("1B0").at("args").at("stream") == "compute");

  auto pipeline = events_of(trace, "pipeline");
  CHECK(pipeline.size() == 4);
  const auto send = at(find(plan_op_kind::send, 0));
  check(pipeline.at("0SEND_F0"), "send", send + 5, send + 8, send + 1);
  CHECK(pipeline.at("0SEND_F0").at("args").at("stream") == "pipeline");
  const auto sent = at(find(plan_op_kind::forward, 0)) + 8;
  check(pipeline.at("1RECV_F0"), "receive", sent + 1, sent + 3,
        at(find(plan_op_kind::receive, 1)) + 1);

  auto data = events_of(trace, "data");
  const auto loaded = at(find(plan_op_kind::forward, 0)) + 5;
  check(data.at("0LOAD0"), "load", loaded, loaded, loaded);
  std::map<int, std::string> threads;
  for (const auto& event : trace.at("traceEvents"))
    if (event.at("ph") == "M" && event.at("name") == "thread_name")
      CHECK(threads
              .emplace(event.at("tid").get<int>(),
                       event.at("args").at("name").get<std::string>())
              .second);
  CHECK(threads.at(pipeline.at("0SEND_F0").at("tid"))
        == "rank 0, pipeline: sends activations");
  CHECK(threads.at(data.at("0LOAD0").at("tid")) == "rank 0, data");
}

TEST_CASE("transfers that overlap are drawn behind one another") {
  timeline of{.ranks = 1};
  timeline_transfer each{
    .stream = stream_kind::collective, .start = 1, .end = 4};
  each.name = "a";
  of.transfers.push_back(each);
  each = {.stream = stream_kind::collective, .start = 2, .end = 6};
  each.name = "b";
  of.transfers.push_back(each);
  const auto drawn =
    events_of(nlohmann::json::parse(draw_trace(of)), "data").at("b");
  CHECK(drawn.at("ts") == 4000);
  CHECK(drawn.at("dur") == 2000);
  CHECK(drawn.at("args").at("device_us") == 2000);
}

TEST_CASE("a trace's events nest, its arrows pair up, and nothing overlaps") {
  const auto events = traced(options_g(2, 2, 1), {.steps = 3}, source_g(2), 5);
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
    if (phase == "X" && category != "wait" && category != "step") {
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
  CHECK(counts["Xstep"] == 3);
  CHECK(counts["Xcompute"] == 3 * 8);  // steps x ranks x microbatches x (F, B)
  CHECK(counts["smessage"] == 3 * 4);
  CHECK(counts["Xpipeline"] == 3 * 2 * 4);  // sends and receives
  CHECK(counts["Xdata"] == 3 * 2);          // loads
}

TEST_CASE("reductions over replicas are on the data stream") {
  const auto events = traced(options_g(2, 1, 2), {}, source_g(2), 1);
  std::vector<std::string> names;
  for (const auto& event : events)
    if (event.value("cat", "") == "data"
        && event.at("args").at("type") == "reduce") {
      names.push_back(event.at("name"));
      CHECK(event.at("dur").get<double>() > 0);
    }
  std::ranges::sort(names);
  CHECK(names
        == std::vector<std::string>{"0REDUCE_GRAD", "0REDUCE_GRAD",
                                    "1REDUCE_GRAD", "1REDUCE_GRAD"});
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
