#include "troupe/actors/stage_runner.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <ATen/ops/ones.h>

#include "pipeline/faked_stage.hpp"
#include "troupe/actors/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/part.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Keeps what a runner sends.
struct recorded_ports final : stage_ports {
  void pass(std::int32_t stage, lane_token token) override {
    tokens.emplace_back(stage, std::move(token));
  }
  void deliver(std::int32_t, stage_tensors message) override {
    delivered.push_back(std::move(message));
  }
  void want(want_data request) override {
    wanted.push_back(request.microbatch);
  }
  void reduce(reduce_gradients) override { ++reduced; }
  void squares(stage_squares) override { ++norms; }
  void done(stage_done report) override { reports.push_back(report); }

  std::vector<std::pair<std::int32_t, lane_token>> tokens;
  std::vector<stage_tensors> delivered;
  std::vector<std::int32_t> wanted;
  int reduced = 0;
  int norms = 0;
  std::vector<stage_done> reports;
};

/// Stage 1 of two, on rank 1: one forward and one backward a step.
struct last_stage {
  explicit last_stage(bool waits_for_norm = false, bool reduces = false) {
    auto context = std::make_shared<step_context>();
    context->serial = 1;
    context->plan = std::make_shared<const plan>(compile(
      make_schedule("gpipe", {2, 1, 2}), {.data_parallel = reduces ? 2 : 1}));
    step = context;
    stage_setup setup;
    setup.run = 77;
    setup.rank = 1;
    setup.stage = 1;
    setup.work = work;
    setup.board = board;
    setup.waits_for_norm = waits_for_norm;
    setup.reduces = reduces;
    setup.overlap.reduce = !reduces;
    runner = std::make_unique<stage_runner>(setup, ports);
    runner->on(begin_step{step});
  }

  progress_board::state doing() const { return board->snapshot()[1].doing; }
  lane_token first_token() const { return {step, step->plan->first_op[1]}; }
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
  /// The plan's message that brings it; 99 where there is none.
  std::int32_t message_for(std::int32_t microbatch) const {
    const auto& plan = *step->plan;
    for (std::size_t i = 0; i < plan.messages.size(); ++i) {
      const auto& op = plan.ops[plan.messages[i].consumer];
      if (op.stage == 1 && op.microbatch == microbatch)
        return static_cast<std::int32_t>(i);
    }
    return 99;
  }
  /// Hands back what the runner passed to itself, until it stops doing so.
  void run_own_turns() {
    while (!ports.tokens.empty() && ports.tokens.back().first == 1) {
      auto token = std::move(ports.tokens.back().second);
      ports.tokens.pop_back();
      runner->on(std::move(token));
    }
  }

  std::shared_ptr<progress_board> board =
    std::make_shared<progress_board>(1, 2);
  step_pointer step;
  std::shared_ptr<troupe::testing::faked_stage> work =
    std::make_shared<troupe::testing::faked_stage>(true);
  recorded_ports ports;
  std::unique_ptr<stage_runner> runner;
};

}  // namespace

TEST_CASE("a stage runs the lane's ops in order as their inputs come") {
  last_stage at;
  at.runner->on(at.activation(1));  // too early: it waits for its turn
  at.runner->on(at.first_token());
  CHECK(at.ports.tokens.empty());
  CHECK(at.runner->current_op() == "1F0");
  CHECK(at.doing() == progress_board::state::waiting);
  at.runner->on(at.activation(0));
  at.run_own_turns();
  REQUIRE(at.ports.tokens.size() == 1);
  CHECK(at.ports.tokens[0].first == none);  // the lane's end: the device
  CHECK(at.ports.delivered.size() == 2);    // the gradients of both
  CHECK(at.ports.delivered[0].header.backward);
  CHECK(at.ports.delivered[0].header.message != none);
  CHECK(at.work->updates == 1);
  REQUIRE(at.ports.reports.size() == 1);
  CHECK(at.ports.reports[0].ops.size() == at.step->plan->lane(1).size());
  CHECK(at.doing() == progress_board::state::idle);
}

TEST_CASE("a rank that waits for the reducer says so") {
  last_stage at(false, true);
  for (const auto k : {0, 1})
    at.runner->on(at.activation(k));
  at.runner->on(at.first_token());
  at.run_own_turns();
  CHECK(at.ports.reduced == 1);
  CHECK_THAT(at.board->describe(*at.step->plan)[1],
             ContainsSubstring("rank 1 waits at") && ContainsSubstring("REDUCE")
               && ContainsSubstring("reducer"));
}

TEST_CASE("an update waits for the norm, and is skipped on an overflow") {
  last_stage at(true);
  for (const auto k : {0, 1})
    at.runner->on(at.activation(k));
  at.runner->on(at.first_token());
  at.run_own_turns();
  CHECK(at.ports.norms == 1);
  CHECK(at.work->updates == 0);
  at.runner->on(norm_known{1, 1, 1.0, false});
  CHECK(at.work->updates == 0);
  CHECK(at.ports.reports.size() == 1);
}

TEST_CASE("a norm that came before the update began is kept for it") {
  last_stage at(true);
  auto update = std::make_shared<step_context>();
  update->serial = 2;
  update->settings.part = step_part::update;
  update->plan = std::make_shared<const plan>(update_of(*at.step->plan));
  at.runner->on(norm_known{1, 1, 1.0, false});  // of the step before
  at.runner->on(begin_step{update});
  at.runner->on(lane_token{update, update->plan->first_op[1]});
  at.step = update;
  at.run_own_turns();
  CHECK(at.ports.reports.empty());
  at.runner->on(norm_known{2, 1, 1.0, true});
  CHECK(at.work->updates == 1);
  CHECK(at.ports.reports.size() == 1);

  last_stage early(true);
  early.runner->on(norm_known{2, 1, 1.0, true});
  early.runner->on(begin_step{update});
  early.runner->on(lane_token{update, update->plan->first_op[1]});
  CHECK(early.work->updates == 1);
  CHECK(early.ports.reports.size() == 1);
}

TEST_CASE("a recording that failed is handed on to its end, without tensors") {
  last_stage at;
  auto gradients = std::make_shared<step_context>();
  gradients->serial = 2;
  gradients->settings.part = step_part::gradients;
  gradients->recorded = std::make_shared<recording>();
  gradients->recorded->fail("something");
  gradients->plan = std::make_shared<const plan>(gradients_of(*at.step->plan));
  at.step = gradients;
  at.runner->on(begin_step{gradients});
  for (const auto k : {0, 1}) {
    auto message = at.activation(k);
    message.header.serial = 2;
    at.runner->on(std::move(message));
  }
  at.runner->on(at.first_token());
  at.run_own_turns();
  CHECK(at.work->ran == 0);
  REQUIRE(at.ports.delivered.size() == 2);
  for (const auto& gradient : at.ports.delivered) {
    CHECK(gradient.header.backward);
    CHECK(gradient.tensors.empty());
  }
  CHECK(at.ports.reports.size() == 1);
}

TEST_CASE("data that no op took are an error at the step's end") {
  last_stage at;
  at.runner->on(loaded_data{1, 0, 0, {}});  // this stage reads no data
  for (const auto k : {0, 1})
    at.runner->on(at.activation(k));
  const auto run_lane = [&] {
    at.runner->on(at.first_token());
    at.run_own_turns();
  };
  CHECK_THROWS_MATCHES(run_lane(), error,
                       MessageMatches(ContainsSubstring(
                         "stage 1: 0 messages, 0 unsent outputs and 1 "
                         "microbatches of data were left")));
}

TEST_CASE("messages that the envelope does not fit are refused") {
  last_stage at;
  const auto refused = [&](auto change, const std::string& reason) {
    auto message = at.activation(0);
    change(message);
    CHECK_THROWS_MATCHES(at.runner->on(std::move(message)), error,
                         MessageMatches(ContainsSubstring(reason)));
  };
  refused([](auto& m) { m.header.run = 1; }, "expected a tensor from stage 0");
  refused([](auto& m) { m.header.from_stage = 5; }, "from stage 5");
  refused([](auto& m) { m.header.data_rank = 2; }, "of replica 2");
  refused([](auto& m) { m.header.backward = true; },
          "expected a tensor from stage 2");
  refused([](auto& m) { m.tensors = {at::ones({2})}; },
          "announces other shapes");
  refused(
    [](auto& m) {
      m.header.tensors = {{at::kFloat, {3}}};
      m.tensors = {at::ones({2})};
    },
    "Float[2]");
  refused([](auto& m) { ++m.header.message; }, "the plan has no message");
  refused([](auto& m) { m.header.message = none; }, "the plan has no");
  refused([](auto& m) { m.header.key.microbatch = 7; }, "the plan has no");
  at.runner->on(at.activation(0));
  refused([](auto&) {}, "twice");
}

TEST_CASE("without overlap no stage of the rank runs beside a reduction") {
  auto context = std::make_shared<step_context>();
  context->serial = 1;
  context->plan = std::make_shared<const plan>(compile(
    make_schedule("interleaved_1f1b", {2, 2, 2}), {.data_parallel = 2}));
  const auto& ops = context->plan->ops;
  std::uint32_t at = 0;
  while (ops[at].kind != plan_op_kind::reduce
         || ops[at + 1].stage == ops[at].stage || ops[at + 1].stage == none
         || ops[at + 1].kind == plan_op_kind::receive)
    ++at;
  stage_setup setup;
  setup.stage = ops[at].stage;
  setup.rank = context->plan->placement.rank_of(setup.stage);
  setup.work = std::make_shared<testing::faked_stage>();
  setup.board = std::make_shared<progress_board>(2, 2);
  setup.reduces = true;
  setup.overlap.reduce = false;
  recorded_ports ports;
  stage_runner runner(setup, ports);
  runner.on(begin_step{context});
  runner.on(lane_token{context, at});
  CHECK(ports.reduced == 1);
  CHECK(ports.tokens.empty());
  runner.on(gradients_reduced{1, 2, nullptr});
  REQUIRE(ports.tokens.size() == 1);
  CHECK(ports.tokens[0].first == ops[at + 1].stage);
}
