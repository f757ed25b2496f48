#include "troupe/actors/rank/rank_runner.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <deque>

#include "pipeline/faked_stage.hpp"
#include "troupe/actors/step/prepared_plan.hpp"
#include "troupe/actors/step/recording.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/overlapped_pairs.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Records what a rank and its stages send.
struct recorded_ports final : rank_ports {
  void run(stage_instance stage, run_op request) override {
    requests.emplace_back(stage, std::move(request));
  }
  void deliver(stage_tensors message) override {
    delivered.push_back(std::move(message));
  }
  void want(want_data request) override {
    requested.push_back(request.microbatch);
  }
  void feed(chosen_tokens) override {}
  void done(rank_done report) override { reports.push_back(std::move(report)); }
  void reduce(collective_request request) override {
    reduced.push_back(request.owner.stage);
  }
  void powers(stage_powers) override { ++norms; }

  std::deque<std::pair<stage_instance, run_op>> requests;
  std::vector<stage_tensors> delivered;
  std::vector<std::int32_t> requested;
  std::vector<std::int32_t> reduced;
  int norms = 0;
  std::vector<rank_done> reports;
};

struct rank_case {
  const char* schedule = "gpipe";
  schedule_shape shape{2, 1, 2};
  std::int32_t rank = 1;
  bool waits_for_norm = false;
  bool reduces = false;
  bool overlaps = true;
};

/// One rank with faked stages that read no data; by default stage 1 of two,
/// with two microbatches a step.
struct one_rank {
  explicit one_rank(const rank_case& what = {}) {
    auto compiled = compile(make_schedule(what.schedule, what.shape),
                            {.data_parallel = what.reduces ? 2 : 1});
    if (!what.overlaps)
      compiled = without_overlapped_reductions(std::move(compiled));
    whole = std::make_shared<const plan>(std::move(compiled));
    rank_setup setup;
    setup.run = 77;
    setup.rank = what.rank;
    setup.board = board;
    setup.needs_data.assign(std::size_t(whole->stages()), false);
    setup.waits_for_norm = what.waits_for_norm;
    setup.reduces = what.reduces;
    runner = std::make_unique<rank_runner>(setup, ports);
    for (const auto& each : whole->placement.instances_of(what.rank)) {
      stage_setup of;
      of.instance = each;
      work = std::make_shared<testing::faked_stage>(each.stage + 1
                                                    == whole->stages());
      of.work = {work, work};
      runner->add(of);
    }
  }

  step_pointer begin(std::int64_t serial, std::shared_ptr<const plan> of,
                     step_part part = step_part::whole,
                     std::shared_ptr<recording> recorded = {}) {
    auto context = std::make_shared<step_context>();
    context->serial = serial;
    context->prepared = std::make_shared<prepared_plan>(of, 1, false);
    context->plan = std::move(of);
    context->settings.part = part;
    context->recorded = std::move(recorded);
    context->gate = std::make_shared<step_gate>();
    step = context;
    runner->on(begin_step{step});
    return step;
  }
  void begin() { begin(1, whole); }

  void run_next() {
    auto [stage, request] = std::move(ports.requests.front());
    ports.requests.pop_front();
    runner->run(stage, std::move(request));
  }
  /// Runs ops as they start, until none starts.
  void run() {
    while (!ports.requests.empty())
      run_next();
  }

  progress_board::state doing() const { return board->snapshot()[1].doing; }
  stage_tensors activation(std::int32_t microbatch) const {
    stage_tensors message;
    message.header.run = 77;
    message.header.serial = 1;
    message.header.from_stage = 0;
    message.header.to_stage = 1;
    message.header.key.microbatch = microbatch;
    message.header.sent = 1;
    message.header.message = message_for(microbatch);
    return message;
  }
  /// The plan's message for a microbatch's activation; 99 if there is none.
  std::int32_t message_for(std::int32_t microbatch) const {
    for (std::size_t i = 0; i < whole->messages.size(); ++i) {
      const auto& op = whole->ops[whole->messages[i].consumer];
      if (op.stage == 1 && op.microbatch == microbatch)
        return static_cast<std::int32_t>(i);
    }
    return 99;
  }
  void receive_all() {
    for (const auto k : {0, 1})
      runner->on(activation(k));
  }

  std::shared_ptr<progress_board> board =
    std::make_shared<progress_board>(1, 2);
  std::shared_ptr<const plan> whole;
  step_pointer step;
  std::shared_ptr<testing::faked_stage> work;
  recorded_ports ports;
  std::unique_ptr<rank_runner> runner;
};

}  // namespace

TEST_CASE("a rank runs its lane in order as messages come") {
  one_rank at;
  at.begin();
  at.runner->on(at.activation(1));  // early: it waits for its turn
  CHECK(at.ports.requests.empty());
  CHECK(at.runner->current_op() == "1F0");
  CHECK(at.doing() == progress_board::state::waiting);
  at.runner->on(at.activation(0));
  CHECK(at.doing() == progress_board::state::running);
  at.run();
  CHECK(at.ports.delivered.size() == 2);  // the gradients of both
  CHECK(at.ports.delivered[0].header.backward);
  CHECK(at.ports.delivered[0].header.to_stage == 0);
  CHECK(at.ports.delivered[0].header.message != none);
  CHECK(at.work->updates == 1);
  REQUIRE(at.ports.reports.size() == 1);
  const auto& ops = at.ports.reports[0].ops;
  REQUIRE(ops.size() == at.whole->lane(1).size());
  for (std::size_t i = 0; i < ops.size(); ++i)
    CHECK(ops[i].op == at.whole->first_op[1] + i);
  CHECK(at.doing() == progress_board::state::idle);
}

TEST_CASE("a message of the next step waits for it") {
  one_rank at;
  at.runner->on(at.activation(0));
  at.begin();
  at.runner->on(at.activation(1));
  at.run();
  CHECK(at.ports.reports.size() == 1);
  at.begin(2, at.whole);
  CHECK_THROWS_MATCHES(at.runner->on(at.activation(0)), error,
                       MessageMatches(ContainsSubstring("of a step that is")));
}

TEST_CASE("a rank that waits for the reducer says so") {
  one_rank at({.reduces = true});
  at.begin();
  at.receive_all();
  at.run();
  CHECK(at.ports.reduced == std::vector{1});
  CHECK_THAT(at.board->describe(*at.whole)[1],
             ContainsSubstring("rank 1 waits at") && ContainsSubstring("NORM")
               && ContainsSubstring("reducer"));
  at.runner->on(collective_result{1, {1}, 0, {}, {}, 5, nullptr});
  at.run();
  REQUIRE(at.ports.reports.size() == 1);
  CHECK_THROWS_AS(
    at.runner->on(collective_result{1, {1}, 0, {}, {}, 5, nullptr}), error);
}

TEST_CASE("an update waits for the norm, and is skipped on an overflow") {
  one_rank at({.waits_for_norm = true});
  at.begin();
  at.receive_all();
  at.run();
  CHECK(at.ports.norms == 1);
  CHECK(at.work->updates == 0);
  for (int again = 0; again < 2; ++again)
    at.runner->on(norm_verdict{1, 1, 1.0, false});
  at.run();
  CHECK(at.work->updates == 0);
  CHECK(at.ports.reports.size() == 1);
}

TEST_CASE("a norm of no step is nothing to a rank without one") {
  one_rank at({.waits_for_norm = true});
  at.runner->on(norm_verdict{0, 1, 1.0, true});
  at.begin();
  CHECK(at.doing() == progress_board::state::waiting);
}

TEST_CASE("a norm that came before the update began is kept for it") {
  for (const bool early : {false, true}) {
    one_rank at({.waits_for_norm = true});
    const auto update = std::make_shared<const plan>(update_of(*at.whole));
    if (early)
      at.runner->on(norm_verdict{2, 1, 1.0, true});
    else
      at.runner->on(norm_verdict{1, 1, 1.0, false});  // of the previous step
    at.begin(2, update, step_part::update);
    at.run();
    CHECK(at.ports.reports.size() == (early ? 1 : 0));
    at.runner->on(norm_verdict{2, 1, 1.0, true});
    at.run();
    CHECK(at.work->updates == 1);
    CHECK(at.ports.reports.size() == 1);
  }
}

TEST_CASE("a recording that failed is handed on to its end, without tensors") {
  one_rank at;
  const auto recorded = std::make_shared<recording>();
  recorded->fail("something");
  at.begin(1, std::make_shared<const plan>(gradients_of(*at.whole)),
           step_part::gradients, recorded);
  at.receive_all();
  at.run();
  CHECK(at.work->ran == 0);
  REQUIRE(at.ports.delivered.size() == 2);
  for (const auto& gradient : at.ports.delivered) {
    CHECK(gradient.header.backward);
    CHECK(gradient.tensors.empty());
  }
  CHECK(at.ports.reports.size() == 1);
}

TEST_CASE("data that no op took are an error at the step's end") {
  one_rank at;
  at.begin();
  at.runner->on(
    loaded_data{1, {1}, 0, 0, {}});  // of a stage that reads no data
  at.receive_all();
  CHECK_THROWS_MATCHES(
    at.run(), error,
    MessageMatches(ContainsSubstring("rank 1: at the end of the step 0 "
                                     "messages and 1 microbatches of data")));
}

TEST_CASE("values are made once and taken once") {
  value_store values;
  const value name{.from = 1, .to = 2, .microbatch = 3};
  values.put(name, {});
  CHECK_THROWS_MATCHES(values.put(name, {}), error,
                       MessageMatches(ContainsSubstring(
                         "the activation of microbatch 3 slice 0 from stage 1 "
                         "to stage 2 was made twice")));
  CHECK(values.left()
        == "the activation of microbatch 3 slice 0 from stage 1 to stage 2");
  values.take(name);
  CHECK(values.left().empty());
  CHECK_THROWS_MATCHES(values.take(name), error,
                       MessageMatches(ContainsSubstring("is missing")));
}

TEST_CASE("messages that the envelope does not fit are refused") {
  one_rank at;
  at.begin();
  const auto refused = [&](auto change, const std::string& reason) {
    auto message = at.activation(0);
    change(message);
    CHECK_THROWS_MATCHES(at.runner->on(std::move(message)), error,
                         MessageMatches(ContainsSubstring(reason)));
  };
  refused([](auto& m) { m.header.run = 1; }, "of its own run and replica");
  refused([](auto& m) { m.header.data_rank = 2; }, "of replica 2");
  refused([](auto& m) { m.header.from_stage = 5; }, "the plan has no message");
  refused([](auto& m) { m.header.to_stage = 0; }, "the plan has no message");
  refused([](auto& m) { m.header.backward = true; }, "the plan has no message");
  refused([](auto& m) { ++m.header.message; }, "the plan has no message");
  refused([](auto& m) { m.header.message = none; }, "the plan has no");
  refused([](auto& m) { m.header.message = 1 << 20; }, "the plan has no");
  refused([](auto& m) { m.header.key.microbatch = 7; }, "the plan has no");
  refused([](auto& m) { m.header.by_device = true; }, "comes from a device");
  at.runner->on(at.activation(0));
  refused([](auto&) {}, "twice");
}

namespace {

/// The ops that run concurrently with the op before them, each listed after
/// that op.
std::vector<std::string> run_beside(one_rank& at) {
  std::vector<std::string> concurrent;
  std::string before;
  at.begin();
  while (!at.ports.requests.empty()) {
    const auto op = at.ports.requests.front().second.op;
    const auto name = to_text(*at.whole, at.whole->ops[op]);
    if (at.ports.requests.front().second.beside)
      concurrent.push_back(before + " " + name);
    before = name;
    at.run_next();
  }
  return concurrent;
}

}  // namespace

TEST_CASE("the second op of a pair runs beside the first, and no other") {
  const rank_case paired{
    .schedule = "dualpipe_v", .shape = {1, 2, 4}, .rank = 0};
  one_rank at(paired);
  std::vector<std::string> pairs;
  for (std::uint32_t op = 0; op < at.whole->ops.size(); ++op)
    if (const auto partner = partner_of(*at.whole, op))
      pairs.push_back(to_text(*at.whole, at.whole->ops[op]) + " "
                      + to_text(*at.whole, at.whole->ops[*partner]));
  CHECK(pairs.size() >= 2);
  CHECK(run_beside(at) == pairs);
}

TEST_CASE("without overlap no stage of the rank runs beside a reduction") {
  for (const bool overlaps : {true, false}) {
    one_rank at({.schedule = "interleaved_1f1b",
                 .shape = {1, 2, 2},
                 .rank = 0,
                 .reduces = true,
                 .overlaps = overlaps});
    at.begin();
    at.run();
    CHECK(at.ports.reduced == (overlaps ? std::vector{1, 0} : std::vector{1}));
    at.runner->on(collective_result{1, {1}, 0, {}, {}, 2, nullptr});
    at.run();
    CHECK(at.ports.reduced == std::vector{1, 0});
    at.runner->on(collective_result{1, {0}, 0, {}, {}, 2, nullptr});
    at.run();
    CHECK(at.ports.reports.size() == 1);
  }
}
