#include "troupe/monitors/dashboard/dashboard_data.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using nlohmann::json;

namespace {

std::shared_ptr<const plan> small_plan() {
  return std::make_shared<const plan>(
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 1})));
}

event_source source_at(std::int64_t step, std::int32_t rank = -1) {
  event_source source;
  source.step = step;
  source.rank = rank;
  return source;
}

/// Each compute op of a rank takes 2 ms; rank 1 begins 2 ms later.
ops_event ops_of(const plan& of, std::int64_t step, std::int32_t rank) {
  constexpr std::int64_t ms = 1'000'000;
  ops_event result{source_at(step, rank), {}};
  auto at = (step * 10 + rank * 2) * ms;
  for (auto op = of.first_op[static_cast<std::size_t>(rank)];
       op < of.first_op[static_cast<std::size_t>(rank) + 1]; ++op)
    if (is_compute(of.ops[op].kind)) {
      const auto sequence = static_cast<std::uint32_t>(result.ops.size());
      result.ops.push_back({op, sequence, at, at, at + 2 * ms});
      at += rank == 0 ? 6 * ms : 2 * ms;
    }
  return result;
}

step_event step_at(std::int64_t number, double loss) {
  step_event result;
  result.source = source_at(number);
  result.losses = {{"loss", loss}};
  result.gradient_norm = 0.5;
  result.learning_rate = 0.25;
  result.updated = true;
  result.tokens = 64;
  result.begin = number * 1'000'000'000;
  result.end = result.begin + 500'000'000;
  result.resident_bytes = 1 << 20;
  return result;
}

void feed_step(dashboard_data& data, const plan& of, std::int64_t number,
               double loss) {
  for (std::int32_t rank = 0; rank < of.ranks(); ++rank)
    data.see(ops_of(of, number, rank));
  data.see(step_at(number, loss));
}

}  // namespace

TEST_CASE("a step becomes the page's data") {
  const auto of = small_plan();
  dashboard_data data({.plan = of, .steps = 9});
  feed_step(data, *of, 1, 2.5);
  const auto state = data.since(0);
  CHECK(state["step"] == 1);
  CHECK(state["steps"] == 9);
  CHECK(state["over"] == false);
  CHECK(state["facts"]["schedule"] == "1f1b");
  CHECK(state["facts"]["rank_of_stage"] == json::array({0, 1}));
  CHECK(state["curves"] == json::parse(R"({
    "train/loss": {"from": 0, "points": [[1, 2.5, 2.5, 2.5, 0]]},
    "grad_norm": {"from": 0, "points": [[1, 0.5, 0.5, 0.5, 0]]},
    "tokens_per_second": {"from": 0, "points": [[1, 128.0, 128.0, 128.0, 0]]},
    "lr": {"from": 0, "points": [[1, 0.25, 0.25, 0.25, 0]]},
    "memory_mib": {"from": 0, "points": [[1, 1.0, 1.0, 1.0, 0]]},
    "bubble": {"from": 0, "points": [[1, 0.5, 0.5, 0.5, 0]]}
  })"));
  CHECK(state["timeline"] == json::parse(R"([{"step": 1, "begin": 0.0,
    "spans": [[0, "F", 0, 0, 0, 2000], [0, "B", 0, 0, 6000, 8000],
              [1, "F", 1, 0, 2000, 4000], [1, "B", 1, 0, 4000, 6000]],
    "waits": [[0, 0, 2000, 6000]]}])"));
  CHECK(state["summary"]["losses"] == json::parse(R"([["loss", 2.5]])"));
  CHECK(state["summary"]["bubble"] == 0.5);
  CHECK(state["summary"]["memory_bytes"] == 1 << 20);
}

TEST_CASE("the page tells what runs, for how long, and of how many tokens") {
  const auto of = small_plan();
  dashboard_data data({.plan = of,
                       .description = {"first try", "gpt", "troupe train"},
                       .clips = true});
  feed_step(data, *of, 1, 2);
  feed_step(data, *of, 2, 2);
  data.end();
  const auto state = data.since(0);
  CHECK(state["facts"]["name"] == "first try");
  CHECK(state["facts"]["model"] == "gpt");
  CHECK(state["facts"]["command"] == "troupe train");
  CHECK(state["facts"]["clips"] == true);
  CHECK(state["tokens"] == 128);
  CHECK(state["elapsed"] == 1.5);
}

TEST_CASE("a page that asks again gets new data only") {
  const auto of = small_plan();
  dashboard_data data({.plan = of});
  feed_step(data, *of, 1, 2);
  const auto first = data.since(0)["revision"].get<std::int64_t>();
  auto state = data.since(first);
  CHECK(state["curves"].empty());
  CHECK(state["alerts"].empty());
  CHECK_FALSE(state.contains("timeline"));
  CHECK_FALSE(state.contains("summary"));
  feed_step(data, *of, 2, 1);
  data.add(alert{source_at(2), "stability", "a <b>spike</b>"});
  state = data.since(first);
  CHECK(state["curves"]["train/loss"]
        == json::parse(R"({"from": 1, "points": [[2, 1.0, 1.0, 1.0, 0]]})"));
  CHECK(state["alerts"] == json::parse(R"([{"step": 2, "phase": "training",
    "kind": "alert", "from": "stability", "text": "a <b>spike</b>"}])"));
  CHECK(state["timeline"].size() == 2);
  CHECK(state["timeline"][1]["begin"] == 10.0);
}

TEST_CASE("numbers that are not finite are text") {
  const auto of = small_plan();
  dashboard_data data({.plan = of});
  feed_step(data, *of, 1, std::nan(""));
  data.add(metrics_record{source_at(1), {{"a/b", HUGE_VAL}}, {}});
  const auto state = data.since(0);
  CHECK(state["curves"]["train/loss"]["points"][0]
        == json::parse(R"([1, "NaN", 0.0, 0.0, 1])"));
  CHECK(state["metrics"] == json::parse(R"([["a/b", "Infinity", 1]])"));
  CHECK(state["summary"]["losses"][0][1] == "NaN");
  CHECK(json::parse(state.dump()) == state);
}

TEST_CASE("validations have curves of their own, and no timeline") {
  const auto of = small_plan();
  dashboard_data data({.plan = of});
  auto validation = step_at(3, 4);
  validation.source.phase = phase::validation;
  data.see(validation);
  const auto state = data.since(0);
  CHECK(state["curves"].size() == 1);
  CHECK(state["curves"].contains("validation/loss"));
  CHECK_FALSE(state.contains("timeline"));
}

TEST_CASE("warnings, failures and lost events are alerts") {
  dashboard_data data({.plan = small_plan()});
  data.see(slow_load_event{source_at(1), 2.5});
  data.see(dropped_event{source_at(2), 17});
  data.see(failure_event{source_at(3, 1), "1F0", "out of memory"});
  const auto state = data.since(0);
  REQUIRE(state["alerts"].size() == 3);
  CHECK(state["alerts"][0]["kind"] == "slow load");
  CHECK(state["alerts"][1]["text"] == "17 events arrived too fast to be shown");
  CHECK(state["alerts"][2]["from"] == "1F0");
  CHECK(state["failure"] == "out of memory");
  CHECK(state["actors"]["slow_loads"] == json::array({1}));
}

TEST_CASE("a heat map is shown when its step is whole") {
  const auto of = small_plan();
  dashboard_data data({.plan = of});
  tensors_event op{source_at(10), false, 1, {}};
  op.source.stage = 1;
  op.source.microbatch = 0;
  op.tensors.emplace_back();
  op.tensors[0].kind = tensor_kind::activation;
  op.tensors[0].statistics.count = 4;
  op.tensors[0].statistics.max_abs = 3;
  op.tensors[0].statistics.mean = 1;
  op.tensors[0].statistics.squares = 5;
  data.see_tensors(op);
  CHECK_FALSE(data.since(0).contains("heat"));
  data.see_tensors(step_at(10, 1));
  CHECK(data.since(0)["heat"] == json::parse(R"({"step": 10, "columns": 1,
    "cut": false, "activation": [null, [3.0, 3.0, 1.0, 0]],
    "gradient": [null, null]})"));
  data.see_tensors(op);
  data.see_tensors(dropped_event{source_at(20), 1});
  data.see_tensors(step_at(20, 1));
  CHECK(data.since(0)["heat"]["step"] == 10);
}

TEST_CASE("health is asked for while the run lasts, and kept when it ends") {
  int requests = 0;
  run_health health;
  health.ranks = {{0, 0, rank_state::waiting, 0, "0B0", "a <x>"}};
  health.monitors = {{"gap", "", 3, 2}};
  dashboard_data data({.plan = small_plan(), .health = [&] {
                         ++requests;
                         return health;
                       }});
  const auto live = data.since(0)["actors"];
  CHECK(live["ranks"] == json::parse(R"([{"replica": 0, "rank": 0, "doing":
    "waiting", "stage": 0, "op": "0B0", "for": "a <x>"}])"));
  CHECK(live["monitors"] == json::parse(R"([{"name": "gap", "trouble": "",
    "waiting": 3, "dropped": 2}])"));
  data.end();
  data.end();
  CHECK(requests == 2);
  CHECK(data.since(0)["over"] == true);
  CHECK(data.since(0)["actors"] == live);
  CHECK(requests == 2);
}

TEST_CASE("memory is bounded, however long a run lasts") {
  const auto of = small_plan();
  dashboard_data data({.plan = of});
  for (int i = 1; i <= 20'000; ++i) {
    feed_step(data, *of, i, 1);
    data.add(alert{source_at(i), "gap", std::string(10'000, '\xff')});
    data.add(metrics_record{source_at(i), {{std::to_string(i), 1}}, {}});
  }
  const auto state = data.since(0);
  CHECK(state["curves"]["train/loss"]["points"].size() <= 2000);
  CHECK(state["alerts"].size() == 200);
  CHECK(state["alerted"] == 20'000);
  CHECK(state["metrics"].size() == 200);
  CHECK(state["timeline"].size() == 4);
  constexpr auto replace = json::error_handler_t::replace;
  CHECK(state.dump(-1, ' ', false, replace).size() < 4 << 20);
}
